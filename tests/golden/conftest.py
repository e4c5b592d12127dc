"""Every golden case runs on both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as pk

Runner = Callable[..., pk.Result]


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark_ready")
    return str(request.param)


@pytest.fixture
def run(engine: str) -> Runner:
    """Runs a network to its end; two buckets, so that groups do part."""

    def to_the_end(net: pk.Network, **settings: Any) -> pk.Result:
        return net.run(engine=engine, **{"buckets": 2, "tasks": 2, **settings})

    return to_the_end
