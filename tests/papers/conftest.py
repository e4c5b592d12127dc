"""Worked examples run on both engines, as golden cases do."""

from tests.golden.conftest import engine, run

__all__ = ["engine", "run"]
