"""Time zones stay: what is computed of timestamps of one zone is in that zone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pyarrow as pa
from tests.golden.conftest import Runner

import penstock as pk

PARIS, TOKYO = "Europe/Paris", "Asia/Tokyo"
SCHEMA = {"ts": f"timestamp[us, {PARIS}]", "at": f"timestamp[us, {TOKYO}]", "utc": "timestamp[us, UTC]", "v": "int64"}
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROWS = [(START + dt.timedelta(minutes=n), START - dt.timedelta(hours=n), START, n) for n in range(3)]


def test_aggregates_keep_the_zone(run: Runner) -> None:
    net = pk.Network("zones")
    packets = net.source("packets", pk.memory(ROWS, schema=SCHEMA, train=2))
    outputs = {
        "lowest": "min(ts)",
        "latest": "max(at)",
        "first": "first(at)",
        "all": "list(at)",
        "of": "arg_max(at, v)",
        "mode": "mode(at)",
        "middle": "quantile_disc(at, 0.5)",
        "combined": "greatest(min(at), max(at))",
        "mixed": "greatest(min(at), max(ts))",
        "plain": "max(utc)",
    }
    packets.aggregate(outputs, size="1 hour", name="plain").output("plain")
    packets.aggregate(outputs, size="1 hour", origin="first", name="groupwise").output("groupwise")
    few = {name: outputs[name] for name in ("lowest", "latest", "first", "of")}
    packets.aggregate(few, size="2 hours", advance="1 hour", flush="slow", name="low").output("low")
    packets.resample(packets, {"a": "min(at)", "b": "max(l.ts)"}, size="1 hour", name="near").output("near")
    result = run(net)
    paris, tokyo, utc = (pa.timestamp("us", tz=zone) for zone in (PARIS, TOKYO, "UTC"))
    kinds = [paris, tokyo, tokyo, pa.list_(tokyo), tokyo, tokyo, tokyo, tokyo, utc, utc]
    for name in ("plain", "groupwise"):
        assert result[name].schema.types[1:] == kinds
        assert result[name]["lowest"][0].as_py() == START
        assert result[name]["lowest"][0].as_py().tzinfo == ZoneInfo(PARIS)
        assert result[name]["latest"][0].as_py() == START
    assert result["low"].schema.types[1:] == [paris, tokyo, tokyo, tokyo]
    assert result["near"].schema.types[1:] == [tokyo, paris]


def test_maps_keep_the_zone(run: Runner) -> None:
    net = pk.Network("zones")
    packets = net.source("packets", pk.memory(ROWS, schema=SCHEMA, train=2))
    texts = {"ts": "ts + INTERVAL 1 HOUR", "at": "coalesce(at, at)", "both": "greatest(at, ts)", "day": "at::DATE"}
    later = packets.map(**texts)
    kinds = [pa.timestamp("us", tz=PARIS), pa.timestamp("us", tz=TOKYO), pa.timestamp("us", tz="UTC"), pa.date32()]
    assert later.schema.types == kinds
    later.output("later")
    later.aggregate({"at": "min(at)"}, on="ts", size="1 day").output("days")
    result = run(net)
    assert result["later"].schema.types == kinds
    assert result["later"]["ts"][0].as_py() == START + dt.timedelta(hours=1)
    assert result["days"]["at"].to_pylist() == [START - dt.timedelta(hours=2)]
    assert result["days"].schema.types == kinds[:2]
