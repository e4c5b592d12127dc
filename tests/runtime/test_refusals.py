"""Why records were refused: counted by kind, bounded, and the same whenever the same batches are run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

import penstock as pk
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.runtime.refusals import KINDS, Refusals


def rejects(*reasons: str, rows: int | None = 1) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"origin": "a.csv", "position": at, "record": "x", "reason": reason, "rows": rows}
            for at, reason in enumerate(reasons, 2)
        ],
        schema=REJECT_SCHEMA,
    )


def refusals(*tables: pa.Table) -> Refusals:
    found = Refusals()
    for table in tables:
        found = found.add(table)
    return found


def test_reasons_that_differ_in_the_value_only_are_one_kind() -> None:
    found = refusals(
        rejects("column 'v': 'x1' is no int64", "ts is NULL", "column 'v': 'it is no use' is no int64"),
        rejects("column 'v': 'x2' is no int64"),
    )
    assert [(r.kind, r.count, r.example) for r in found.kinds.values()] == [
        ("column 'v': … is no int64", 3, "column 'v': 'x1' is no int64"),
        ("ts is NULL", 1, "ts is NULL"),
    ]
    assert found.sentence() == (
        "column 'v': 'x1' is no int64 and the like (3, first in a.csv at 2); ts is NULL (1, first in a.csv at 3)"
    )


def test_a_reject_may_stand_for_many_records_or_nobody_knows_how_many() -> None:
    found = refusals(rejects("has no column 'v'", rows=40), rejects("is empty", rows=None))
    assert [r.count for r in found.kinds.values()] == [40, 1]


def test_what_is_beyond_the_first_kinds_is_counted_together() -> None:
    found = refusals(rejects(*(f"reason {n}" for n in range(KINDS + 5))), rejects("reason 1", "reason 99"))
    assert (len(found.kinds), found.others, found.count) == (KINDS, 6, KINDS + 7)
    assert found.kinds["reason 1"].count == 2
    assert found.sentence() == (
        "reason 1 (2, first in a.csv at 3); reason 0 (1, first in a.csv at 2); reason 2 (1, first in a.csv at 4); "
        f"other reasons ({KINDS + 3})"
    )


def test_merging_keeps_the_first_example_and_survives_json() -> None:
    first, second = refusals(rejects("column 'v': 'a' is no int64")), refusals(rejects("column 'v': 'b' is no int64"))
    both = first.merge(Refusals.from_json(json.loads(json.dumps(second.to_json()))))
    assert [(r.count, r.example) for r in both.kinds.values()] == [(2, "column 'v': 'a' is no int64")]


def network(file: Path) -> pk.Network:
    net = pk.Network("net")
    source = net.source("events", pk.files(str(file)), schema={"ts": "int64", "v": "int64"})
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    return net


def test_a_run_whose_records_were_all_refused_says_why(tmp_path: Path, data: Path) -> None:
    file = data / "a.csv"
    file.write_text("ts,v\n" + "1,abc\n" * 12 + ",3\n" * 4)
    for tasks, train_rows in ((1, None), (2, 3), (2, None)):
        checkpoint = str(tmp_path / f"{tasks}-{train_rows}")
        result = network(file).run("local", tasks=tasks, train_rows=train_rows, checkpoint=checkpoint)
        assert result.record().inputs["events"].refused == 16
        assert result.refused() == {
            "events": f"refused 16 of 16: column 'v': 'abc' is no int64 and the like (12, first in {file} at 2); "
            f"ts is NULL: a tuple must have its progressing attribute (4, first in {file})"
        }
        assert result.record().refusals["events"].count == 16


def test_a_run_without_refusals_has_no_reasons() -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([(1,)], schema={"ts": "int64"})).output("out")
    assert net.run("local").refused() == {}
