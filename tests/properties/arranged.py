"""Runs of a network in the local executor that is arranged anew between batches."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import penstock as pk
from penstock.algebra.network import Network
from penstock.plan.compile import compile_network
from penstock.plan.plan import Arrangement, Plan, Step
from penstock.plan.prune_boxes import prune_boxes
from penstock.plan.rewrites.draft import Draft
from penstock.plan.rewrites.rewrites import REWRITES, take
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import Settings
from penstock.runtime.shelf import Shelf
from penstock.storage.folder import Folder

Outcome = dict[str, tuple[pa.Table, list[Any]]]
"""Of every output its tuples, and all that was emitted in its order."""


def possible(draft: Draft) -> list[Step]:
    """The steps that a draft can take."""
    steps = [Step(rewrite, node.name) for rewrite in REWRITES for node in draft.nodes]
    return [step for step in steps if take(draft.copied(), step)]


@st.composite
def arrangements(draw: Any, network: Network, most: int = 8) -> Arrangement:
    """Any steps that can be taken, one after the other."""
    draft, taken = Draft.of(prune_boxes(Plan(network)).network), []
    for _ in range(draw(st.integers(0, most))):
        steps = possible(draft)
        if not steps:
            break
        step = draw(st.sampled_from(steps))
        take(draft, step)
        taken.append(step)
    return tuple(taken)


def run_arranged(
    net: pk.Network, arrangement: Callable[[int], Arrangement | None], **options: Any
) -> tuple[Result, Outcome]:
    """Run to the end; before each batch the network may be arranged anew."""
    with tempfile.TemporaryDirectory() as folder:
        plan = compile_network(net.network)
        settings = Settings(durability="process", **options)
        job = open_job(plan, settings, Folder(folder), 2, dumps=pickle.dumps)
        executor, shelf = LocalExecutor(job), Shelf.of(job)
        try:
            for batch in range(10_000):
                if (chosen := arrangement(batch)) is not None:
                    shelf.arrange(compile_network(net.network, arrangement=chosen), shelf.newest.version)
                if executor.step() is None:
                    break
        finally:
            executor.close()
        result = Result(shelf.newest)
        return result, outcome(result)


def outcome(result: Result) -> Outcome:
    return {name: (result[name], result.elements(name)) for name in result.outputs()}


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.keys() == other.keys()
    for name, (tuples, emitted) in one.items():
        assert tuples.equals(other[name][0]), name
        assert emitted == other[name][1], name
