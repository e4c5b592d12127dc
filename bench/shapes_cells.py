"""The cells of `penstock bench shapes`: what is asked of which data, as one declaration for all peers.

A question is declared once. Penstock, DuckDB and Spark SQL share the text of its expressions; where Spark has no equal
of an aggregate, `native` says what it is asked instead. A cell that Spark cannot answer at all says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 60
TUPLES: Final = 100
"""Tuples to a window of tuples."""
BAND_S: Final = 10
LINKS: Final = ("m1", "m2", "m3")

CATCH_UP: Final = "catch-up"
STEADY: Final = "steady"
MODES: Final = (CATCH_UP, STEADY)
"""Each engine with the batch that suits it best; and a twentieth of the rows, at most a million, to a batch."""

PROFILE: Final = "penstock-profile"
"""The peer that finds out where our time goes."""

COUNT: Final[Mapping[str, str]] = {"n": "count(*)"}
COUNT_SUM: Final[Mapping[str, str]] = {"n": "count(*)", "total": "sum(len)"}
RICH: Final[Mapping[str, str]] = {"n": "count(*)", "total": "sum(len)", "mean": "avg(len)", "longest": "max(len)"}


@dataclass(frozen=True)
class Panes:
    """An aggregate in two steps, for those who are not helped by their engine: panes first, then windows of panes."""

    partial: Mapping[str, str]
    merged: Mapping[str, str]


RICH_PANES: Final = Panes(
    {"n": "count(*)", "total": "sum(len)", "longest": "max(len)"},
    {"n": "sum(n)", "total": "sum(total)", "mean": "sum(total) / sum(n)", "longest": "max(longest)"},
)


@dataclass(frozen=True)
class Windows:
    """Aggregates over windows of time."""

    by: Sequence[str]
    outputs: Mapping[str, str]
    native: Mapping[str, str] = field(default_factory=dict)
    """What Spark is asked instead, by output."""
    tolerance: float = 0.0
    """By what part a native answer may be off; every answer, if `exact` says what is right."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """What an output estimates."""
    advance: int = WINDOW_S
    """In seconds. Windows are a minute long."""
    panes: Panes | None = None
    marks_by: Sequence[str] = ()
    """The groups that make progress of their own."""
    links: Sequence[str] = ()
    """The inputs that are united; one, if there are none."""
    lookup: str = ""
    """The attribute by which tuples are looked up in the table of hosts, which has the attributes of `by`."""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("ts", *self.by)


@dataclass(frozen=True)
class TupleWindows:
    """Aggregates over windows of so many tuples of a group, in order of arrival."""

    by: Sequence[str]
    outputs: Mapping[str, str]
    size: int = TUPLES

    @property
    def keys(self) -> tuple[str, ...]:
        return ("Tup#", *self.by)


@dataclass(frozen=True)
class Matches:
    """q7: two links joined within a band of time, and the matches counted by the minute."""

    band: int = BAND_S
    keys: Sequence[str] = ("ts",)
    outputs: Mapping[str, str] = field(default_factory=lambda: COUNT)


@dataclass(frozen=True)
class Selection:
    """Some of the rows, with other columns."""

    where: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Unique:
    """Every tuple once: duplicates agree in these attributes, one of them the time."""

    by: Sequence[str]


Question = Windows | TupleWindows | Matches | Selection | Unique

WINDOWED, STATELESS, OTHER = "windowed", "stateless", "other"
"""What an aim is about."""


@dataclass(frozen=True)
class Cell:
    """One shape."""

    name: str
    summary: str
    question: Question
    kind: str = WINDOWED
    data: str = "events"
    """Which data: `shapes_data.py` writes it."""
    text: str = ""
    """How the data is written, if not as Parquet: csv or json."""
    share: int = 1
    """One row of so many is read in this cell: what takes long, or is large as text, gets fewer."""
    target: str = "parquet"
    native: bool = True
    """Whether Spark can do the same."""
    modes: Sequence[str] = MODES
    fresh: bool = False
    """Whether the start of the process is what is timed."""

    def case(self, mode: str) -> str:
        return self.name if mode == CATCH_UP else f"{self.name}-{mode}"


SELECTED: Final = Selection("len > 200", {"ts": "ts", "number": "number", "host": "host", "kb": "len / 1e3"})

CELLS: Final[tuple[Cell, ...]] = (
    Cell("pair", "count by two dense integers (q4)", Windows(("srcIP", "destIP"), COUNT)),
    Cell("sparse", "count and sum by a sparse 64-bit integer, four times the groups", Windows(("id",), COUNT_SUM)),
    Cell("string-low", "count by 1,000 strings", Windows(("link",), COUNT)),
    Cell("string-high", "count by as many strings as there are groups", Windows(("host",), COUNT)),
    Cell("composite", "count by a string and an integer, 977,000 groups", Windows(("link", "port"), COUNT)),
    Cell("zipf", "count by strings of which few are frequent", Windows(("popular",), COUNT)),
    Cell("rich", "count, sum, avg, max by the strings of string-high", Windows(("host",), RICH)),
    Cell(
        "distinct",
        "distinct strings by 977 integers; native: approximate",
        Windows(("port",), {"n": "count(DISTINCT host)"}, {"n": "approx_count_distinct(host)"}, tolerance=0.3),
    ),
    Cell(
        "sketch",
        "the same, approximate for all",
        Windows(
            ("port",),
            {"n": "approx_count_distinct(host)"},
            tolerance=0.3,
            exact={"n": "count(DISTINCT host)"},
        ),
    ),
    Cell(
        "distinct-low",
        "distinct strings of 1,000 by 977 integers; native: approximate",
        Windows(("port",), {"n": "count(DISTINCT link)"}, {"n": "approx_count_distinct(link)"}, tolerance=0.3),
    ),
    Cell("median", "median by 977 integers", Windows(("port",), {"middle": "median(len)"})),
    Cell(
        "first-last",
        "the first and the last value, by time, by 1,000 strings",
        Windows(("link",), {"first": "min_by(len, ts)", "last": "max_by(len, ts)"}),
    ),
    Cell(
        "sliding",
        "count, sum, avg, max by 1,000 strings, 60 s every 10 s",
        Windows(("link",), RICH, advance=10, panes=RICH_PANES),
    ),
    Cell(
        "tuples",
        "the four aggregates over 100 tuples each, by 1,000 strings",
        TupleWindows(("link",), RICH),
        native=False,
    ),
    Cell(
        "group-marks",
        "count by 1,000 strings, each with punctuation of its own",
        Windows(("link",), COUNT, marks_by=("link",)),
        native=False,
    ),
    Cell(
        "union", "count by 1,000 strings over three links united", Windows(("link",), COUNT, links=LINKS), data="links"
    ),
    Cell(
        "lookup", "strings looked up in a table of hosts, count by their site", Windows(("site",), COUNT, lookup="host")
    ),
    Cell("band-join", "q7: two links joined within 10 s", Matches(), data="conversations", share=5),
    Cell("dedupe", "one row of ten comes twice", Unique(("ts", "number")), kind=OTHER, data="duplicates"),
    Cell("stateless", "where and map, rows to Parquet", SELECTED, kind=STATELESS),
    Cell("delta", "where and map, rows to a Delta table", SELECTED, kind=OTHER, target="delta", native=False),
    Cell(
        "csv",
        "count and sum by 1,000 strings, from CSV",
        Windows(("link",), COUNT_SUM),
        kind=OTHER,
        data="text",
        text="csv",
        share=5,
    ),
    Cell(
        "json",
        "count and sum by 1,000 strings, from JSON lines",
        Windows(("link",), COUNT_SUM),
        kind=OTHER,
        data="text",
        text="json",
        share=5,
    ),
    Cell(
        "first-result",
        "from the start of Python to the end of a query over 100,000 rows",
        Windows(("link",), COUNT),
        kind=OTHER,
        data="few",
        modes=(CATCH_UP,),
        fresh=True,
    ),
)


def cell(name: str) -> Cell:
    """The cell of that name."""
    return next(each for each in CELLS if each.name == name)


def place(case: str) -> tuple[Cell, str]:
    """The cell and the mode of a case."""
    return next((each, mode) for each in CELLS for mode in each.modes if each.case(mode) == case)
