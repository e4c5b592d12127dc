"""The package list, which pyproject.toml cannot compute when a package lives in a folder of another name."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages("src"), "penstock_bench", *(f"penstock_bench.{name}" for name in find_packages("bench"))]
)
