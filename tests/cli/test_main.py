"""The command line: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runtime.jobs import job_of
from typer.testing import CliRunner, Result

import penstock
from penstock.cli.application import load
from penstock.cli.main import app
from penstock.language import box_list
from penstock.runtime.work import InputCount

APPLICATION = """
import penstock as pk

net = pk.Network("netmon")
rows = [(1, 10), (2, 20), (6, 30), (11, 40)]
main1 = net.source("main1", pk.memory(rows, schema={"ts": "int64", "len": "int64"}))
main1.aggregate({"n": "count(*)", "bytes": "sum(len)"}, on="ts", size=5, name="flows").output("flows")
"""


BROKEN = APPLICATION.replace("(2, 20)", "(6, 'x'), (6, 'y'), (2, 20)").replace("(1, 10)", "(6, 10)")
REASONS = "refused 2 of 6: column 'len': 'x' is no int64 and the like (2, first in memory at 2)"
DISORDER = (
    "ts is up to 4 behind the largest before it, 99.9% of the tuples up to 4; declared: nothing, so ordered; "
    "progress=pk.delayed(4) would be kept"
)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    return path


@pytest.fixture
def application(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APPLICATION)
    return path


def penstock_command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_version_is_the_version_of_the_package() -> None:
    result = penstock_command("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"penstock {penstock.__version__}"


def test_help_lists_the_commands() -> None:
    result = penstock_command("--help")
    assert result.exit_code == 0
    assert all(command in result.output for command in ("run", "explain", "why", "boxes", "demo"))


def test_boxes_lists_every_box_with_its_arguments_and_an_example() -> None:
    result = penstock_command("boxes")
    assert result.exit_code == 0
    assert all(card.example in result.output for card in box_list.boxes())
    (join,) = json.loads(penstock_command("boxes", "join", "--json").output)
    assert {"name": "how", "default": "'inner'"}.items() <= next(
        a for a in join["arguments"] if a["name"] == "how"
    ).items()


def test_an_unknown_box_is_refused_with_those_that_exist() -> None:
    result = penstock_command("boxes", "jion")
    assert result.exit_code == 2
    assert "there is no box 'jion'" in result.output


def test_why_needs_a_run_to_look_at(application: Path, tmp_path: Path) -> None:
    result = penstock_command("why", application, "--checkpoint", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert f"there is no run in {tmp_path / 'nowhere'}" in result.output


def test_why_of_a_run_that_has_ended(application: Path, tmp_path: Path) -> None:
    load(application, None).run(engine="local", checkpoint=str(tmp_path / "run"))
    result = penstock_command("why", application, "--checkpoint", tmp_path / "run")
    assert (result.exit_code, result.output) == (0, "nothing waits\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("why", "no batch of this run has been committed yet, so it is not known who waits\n"),
        ("trace", "no batch of this run has been committed yet, so there is nothing to trace\n"),
    ],
)
def test_why_and_trace_before_the_first_batch(application: Path, tmp_path: Path, command: str, said: str) -> None:
    job_of(load(application, None), tmp_path / "run")
    result = penstock_command(command, application, "--checkpoint", tmp_path / "run")
    assert (result.exit_code, result.output) == (0, said)


def test_before_the_first_batch_every_input_has_counted_nothing(application: Path, tmp_path: Path) -> None:
    job_of(load(application, None), tmp_path / "run")
    assert load(application, None).look(str(tmp_path / "run")).record().inputs == {"main1": InputCount()}


def test_why_tells_of_broken_promises_and_refused_records(broken: Path, tmp_path: Path) -> None:
    load(broken, None).run(engine="local", checkpoint=str(tmp_path / "run"))
    result = penstock_command("why", broken, "--checkpoint", tmp_path / "run")
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [f"input 'main1': {DISORDER}", f"input 'main1': {REASONS}", "nothing waits"],
    )


@pytest.mark.parametrize("given", ["some", "5", "5%%"])
def test_a_limit_that_cannot_be_read_is_refused_before_spark_starts(application: Path, given: str) -> None:
    result = penstock_command("run", application, "--max-late", "120%", "--max-refused", given)
    assert result.exit_code == 2
    assert "is no limit" in result.output
    assert "expected: a number such as 100, or a share such as '5%'" in result.output


@pytest.mark.spark
def test_run_shows_reasons_disorder_and_a_warning(broken: Path, tmp_path: Path, spark_ready: object) -> None:
    result = penstock_command("run", broken, "--checkpoint", tmp_path / "checkpoint")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("warning:")] == [
        "warning: input 'main1' is out of order, and no progress= was given: ts is up to 4 behind so far, and such "
        "tuples are late or not as trains happen to be cut; progress=pk.delayed(4) would keep them"
    ]
    assert lines[-3:] == ["main1: 6 read = 4 taken + 0 late + 2 refused", f"  {REASONS}", f"  {DISORDER}"]


@pytest.mark.spark
def test_run_ends_with_an_error_beyond_a_limit(broken: Path, tmp_path: Path, spark_ready: object) -> None:
    for _ in range(2):
        result = penstock_command("run", broken, "--checkpoint", tmp_path / "checkpoint", "--max-refused", "20%")
        assert result.exit_code == 1
        assert "box 'main1': 2 of 6 records were refused, more than max_refused allows" in result.output
        assert f"found: {REASONS.removeprefix('refused ')}" in result.output
        assert "Traceback" not in result.output
    # What was committed stays.
    assert load(broken, None).look(str(tmp_path / "checkpoint")).record().inputs["main1"].taken == 4
    result = penstock_command("run", broken, "--checkpoint", tmp_path / "checkpoint", "--max-refused", "2")
    assert result.exit_code == 0, result.output
    assert "flows: 3 tuples" in result.output


def test_explain_shows_the_boxes_and_starts_nothing(application: Path) -> None:
    result = penstock_command("explain", application)
    assert result.exit_code == 0
    assert "flows" in result.output
    assert "main1" in result.output


@pytest.mark.spark
def test_run_goes_to_the_end_and_shows_results_and_counts(
    application: Path, tmp_path: Path, spark_ready: object
) -> None:
    result = penstock_command("run", application, "--checkpoint", tmp_path / "checkpoint")
    assert result.exit_code == 0, result.output
    assert "flows: 3 tuples" in result.output
    cells = [line.split("│")[1:-1] for line in result.output.splitlines() if line.startswith("│")]
    assert [[int(cell) for cell in row] for row in cells] == [[0, 2, 30], [5, 1, 30], [10, 1, 40]]
    assert "main1: 4 read = 4 taken + 0 late + 0 refused" in result.output


@pytest.mark.spark
def test_run_shows_no_more_rows_than_asked(application: Path, tmp_path: Path, spark_ready: object) -> None:
    result = penstock_command("run", application, "--checkpoint", tmp_path / "checkpoint", "--rows", 1)
    assert result.exit_code == 0, result.output
    assert sum(line.startswith("│") for line in result.output.splitlines()) == 1
    assert "flows: 3 tuples" in result.output


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_missing_file_is_the_users_error(command: str, tmp_path: Path) -> None:
    result = penstock_command(command, tmp_path / "absent.py")
    assert result.exit_code == 2
    assert "there is no file" in result.output


def test_a_wrong_column_is_refused_with_the_columns_that_exist(application: Path) -> None:
    application.write_text(APPLICATION.replace('on="ts", size=5', 'on="time", size=5'))
    result = penstock_command("explain", application)
    assert result.exit_code == 2
    assert "network 'netmon', box 'flows': unknown column 'time'" in result.output
    assert "expected: one of ts, len" in result.output
    assert "Traceback" not in result.output


def test_a_file_that_fails_is_named_with_its_line(application: Path) -> None:
    application.write_text("import penstock as pk\n\nnet = pk.Netwrok('netmon')\n")
    result = penstock_command("run", application)
    assert result.exit_code == 2
    assert "line 3 fails" in result.output
    assert "AttributeError" in result.output
    assert "Traceback" not in result.output


def test_a_syntax_error_is_named_with_its_line(application: Path) -> None:
    application.write_text("import penstock as pk\nnet = pk.Network(\n")
    result = penstock_command("explain", application)
    assert result.exit_code == 2
    assert "line 2 fails" in result.output
    assert "SyntaxError" in result.output


def test_a_file_without_a_network_is_refused(application: Path) -> None:
    application.write_text("answer = 42\n")
    result = penstock_command("explain", application)
    assert result.exit_code == 2
    assert "defines 0 networks" in result.output


def test_one_of_several_networks_must_be_named(application: Path) -> None:
    application.write_text(APPLICATION + "\nother = pk.Network('other')\n")
    unnamed = penstock_command("explain", application)
    assert unnamed.exit_code == 2
    assert "name one with --network" in unnamed.output
    assert penstock_command("explain", application, "--network", "net").exit_code == 0
    unknown = penstock_command("explain", application, "--network", "third")
    assert unknown.exit_code == 2
    assert "has no network 'third'" in unknown.output
    assert "found: net, other" in unknown.output


def test_an_unknown_option_is_refused_with_the_usage(application: Path) -> None:
    result = penstock_command("run", application, "--no-such-option")
    assert result.exit_code == 2
    assert "Usage" in result.output
