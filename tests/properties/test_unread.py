"""Branches that nobody reads change nothing: random networks with and without them give the same results."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.networks import Case, arrow_schema, bag, build, cases
from tests.properties.test_networks import NO_FIXTURE_CHECK
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.box import Output, Port

SHAPES = ("cleanse", "bsort", "dedupe", "join", "merge", "map", "where", "aggregate", "assuming")


def _grown(stream: pk.Stream, shape: str) -> pk.Stream:
    """The stream behind one more box; as it is, where such a box does not go."""
    on = next(iter(stream.progressing), None)
    if on is None:
        return stream.where("1 = 1")
    size = 20 if pa.types.is_integer(stream.schema.field(on).type) else "20 days"
    match shape:
        case "cleanse":
            return stream.cleanse(on=on)
        case "bsort":
            return stream.bsort(on=on, slack=2)
        case "dedupe":
            return stream.dedupe(on=on)
        case "join":
            return stream.join(stream, on=on, size=size, predicate=f"l.{on} = r.{on}")
        case "merge":
            return pk.merge(stream, stream, on=on)
        case "map":
            return stream.map(**{on: on, "x": f"hash({stream.schema.names[-1]})"})
        case "where":
            return stream.where(f"{on} IS NOT NULL")
        case "aggregate":
            return stream.aggregate({"number": "count(*)"}, on=on, size=size)
    return stream.aggregate({"number": "count(*)"}, on=on, size=size, assuming=pk.order(on, slack=10**6))


@settings(max_examples=tries(40), suppress_health_check=NO_FIXTURE_CHECK)
@given(
    case=cases(rows=15, boxes=4, aggregates=2),
    dead=st.lists(
        st.tuples(st.integers(0, 20), st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3)), min_size=1, max_size=3
    ),
    architecture=st.sampled_from(["out-of-order", "in-order"]),
)
def test_dead_branches_change_nothing(case: Case, dead: list[tuple[int, list[str]]], architecture: str) -> None:
    plain, grown = build(case), build(case)
    boxes = [box for box in grown.network.boxes if not isinstance(box, Output)]
    for place, shapes in dead:
        stream = pk.Stream(grown, Port(boxes[place % len(boxes)]))
        for shape in shapes:
            stream = _grown(stream, shape)
    note(grown.explain(architecture=architecture))
    one, two = (
        net.run(engine="local", buckets=case.buckets, tasks=case.tasks, architecture=architecture)
        for net in (plain, grown)
    )
    for number, node in enumerate(case.outputs):
        schema = arrow_schema(node.schema)
        assert bag(one[f"o{number}"], schema) == bag(two[f"o{number}"], schema)
        assert one.elements(f"o{number}") == two.elements(f"o{number}")
    assert one.record().inputs == two.record().inputs
