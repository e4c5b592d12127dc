"""The simulated disk: what a power cut may take, and what it may not."""

from __future__ import annotations

import errno
from random import Random

import pytest

from penstock.simulation.disk import CrashError, SimulatedDisk, cut_power, end_process, fail_with


def after_power_cuts(prepare, path, tries=300):
    """Every content that a file has after a power cut; None where it is gone."""
    found = set()
    for seed in range(tries):
        disk = SimulatedDisk(Random(seed))
        prepare(disk)
        disk.power_cut()
        found.add(disk.names_now[path].content if path in disk.names_now else None)
    return found


def test_what_lasts_survives():
    def prepare(disk):
        disk.write("/a/b", [b"old"], lasting=True)
        disk.write("/a/b", [b"new!"], lasting=True)

    assert after_power_cuts(prepare, "/a/b") == {b"new!"}


def test_a_write_that_was_not_synced_may_be_lost_empty_torn_or_whole():
    def prepare(disk):
        disk.write("/a/b", [b"old"], lasting=True)
        disk.write("/a/b", [b"new!"], lasting=False)

    assert after_power_cuts(prepare, "/a/b") == {b"old", b"", b"n", b"ne", b"new", b"new!", bytes(4)}


def test_a_file_in_a_folder_that_was_not_synced_may_be_lost_with_it():
    def prepare(disk):
        disk.make("/a/b", lasting=False)
        disk.write("/a/b/c", [b"x"], lasting=True)

    assert after_power_cuts(prepare, "/a/b/c") == {None, b"x"}


def test_a_rename_happens_whole_or_not_at_all():
    both = set()
    for seed in range(100):
        disk = SimulatedDisk(Random(seed))
        disk.make("/to", lasting=True)
        disk.write("/from/x", [b"x"], lasting=True)
        disk.move("/from/x", "/to/y", lasting=False)
        disk.power_cut()
        both.add(("/from/x" in disk.names_now, "/to/y" in disk.names_now))
    assert both == {(True, False), (False, True)}


def test_an_append_that_was_not_synced_keeps_what_was_there():
    def prepare(disk):
        disk.append("/a/j", 0, b"one\n", lasting=True)
        disk.append("/a/j", 4, b"two\n", lasting=False)

    found = after_power_cuts(prepare, "/a/j")
    assert b"one\n" in found
    assert b"one\ntwo\n" in found


def test_a_process_that_ends_leaves_every_step_before_and_none_after():
    seen = set()
    for at in range(8):
        disk = SimulatedDisk(Random(0))
        disk.write("/a/b", [b"old"], lasting=True)
        disk.strikes = {disk.operations + at: end_process}
        try:
            disk.write("/a/b", [b"new"], lasting=True)
        except CrashError:
            seen.add(disk.read("/a/b").to_pybytes())
    assert seen == {b"old", b"new"}


def test_faults_strike_once_where_they_were_told():
    disk = SimulatedDisk(Random(0))
    disk.strikes = {0: fail_with(errno.ENOSPC)}
    with pytest.raises(OSError, match="No space left"):
        disk.make("/a", lasting=False)
    disk.make("/a", lasting=False)
    disk.strikes = {disk.operations: cut_power}
    with pytest.raises(CrashError):
        disk.write("/a/b", [b"x"], lasting=True)
    assert disk.unsafe == []
