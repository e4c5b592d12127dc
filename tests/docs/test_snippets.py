"""The docs are executed: what README.md, CONTRIBUTING.md and docs/ show is what happens.

Every ```python block runs; the blocks of a page share one namespace and run in order, in an empty folder. A block can
be left out only by a comment on the line before it that gives the reason: `<!-- not executed: needs a broker -->`.
A ```text block after the line `<!-- printed -->` must be what the python block before it printed.
A ```console block runs its `$ penstock ...` lines when the line before it is `<!-- executed -->`.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_TIMEOUT_S = 240

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)[^`]*$")
_NOT_EXECUTED = re.compile(r"^<!-- not executed:(?P<reason>.*)-->$")
_EXECUTED = "<!-- executed -->"
_PRINTED = "<!-- printed -->"
_LINK = re.compile(r"\]\((?!\w+:)(?P<page>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


@dataclass(frozen=True)
class Snippet:
    language: str
    line: int  # of the first line of the text, from 1
    text: str
    note: str  # the line before the fence, blank lines skipped

    @property
    def skipped(self) -> bool:
        """Whether a comment excuses the block; an excuse without a reason is an error."""
        found = _NOT_EXECUTED.match(self.note)
        if found and not found["reason"].strip():
            raise ValueError(f"line {self.line}: 'not executed' needs a reason")
        return found is not None

    @property
    def commands(self) -> list[list[str]]:
        """The `$ penstock ...` lines of the block, split as a shell would."""
        lines = (line.strip() for line in self.text.splitlines())
        return [shlex.split(line[2:]) for line in lines if line.startswith("$ penstock ")]


def snippets(page: str) -> Iterator[Snippet]:
    """The fenced blocks of a page, in order."""
    lines = iter(enumerate(page.splitlines(), start=1))
    note = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            note = line.strip() or note
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner.removeprefix(fence["indent"]))
        else:
            raise ValueError(f"line {number}: the block is never closed")
        yield Snippet(fence["language"], number + 1, "\n".join(body), note)
        note = ""


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    code = [block.text for block in snippets(page)]
    for text in code:
        page = page.replace(text, "")
    headings = re.findall(r"^#+ +(.+?) *$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def run_page(path: Path) -> None:
    """Execute the page in the current folder. Errors carry the page's own line numbers."""
    # A real module, because pickle and dataclasses look a function's module up in sys.modules.
    module = ModuleType("__main__")
    previous = sys.modules["__main__"]
    sys.modules["__main__"] = module
    printed = io.StringIO()
    try:
        for snippet in snippets(path.read_text(encoding="utf-8")):
            if snippet.language == "python" and not snippet.skipped:
                code = compile("\n" * (snippet.line - 1) + snippet.text, str(path), "exec")
                with contextlib.redirect_stdout(printed := io.StringIO()):
                    exec(code, module.__dict__)
            elif snippet.language == "text" and snippet.note == _PRINTED:
                assert printed.getvalue().rstrip() == snippet.text.rstrip(), f"{path.name}:{snippet.line}"
            elif snippet.language == "console" and snippet.note == _EXECUTED:
                for command in snippet.commands:
                    run_command(command, f"{path.name}:{snippet.line}")
    finally:
        sys.modules["__main__"] = previous


def run_command(command: list[str], place: str) -> None:
    # This interpreter's penstock, whatever PATH says.
    arguments = [sys.executable, "-c", "from penstock.cli.main import app; app(prog_name='penstock')", *command[1:]]
    done = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{place}: {shlex.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.mark.spark
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page_runs_as_written(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    blocks = [snippet for snippet in snippets(path.read_text(encoding="utf-8")) if snippet.language == "python"]
    if any(not block.skipped for block in blocks):
        request.getfixturevalue("spark_ready")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))  # pages give runs names, some of them the same
    run_page(path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(path: Path):
    for target, anchor in _LINK.findall(path.read_text(encoding="utf-8")):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), f"{path.name}: {target}"
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), f"{path.name}: {target}#{anchor}"


def test_anchors_are_those_of_headings_outside_of_code():
    page = "# A b\n## Tumbling, with `gaps`\n```\n# no\n```\n"
    assert anchors(page) == {"a-b", "tumbling-with-gaps"}


def test_readme_shows_a_first_query_that_is_executed():
    blocks = list(snippets((ROOT / "README.md").read_text(encoding="utf-8")))
    assert any(block.language == "python" and not block.skipped for block in blocks)


def test_blocks_of_a_page_share_names_and_failures_name_the_line(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# T\n```python\nx = 1\n```\ntext\n\n```python\nassert x == 1\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as failure:
        run_page(page)
    assert failure.traceback[-1].lineno + 1 == 9


def test_what_a_page_says_is_printed_must_be_printed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n<!-- printed -->\n```text\n2\n```\n")
    run_page(page)
    page.write_text(page.read_text().replace("\n2\n", "\n3\n"))
    with pytest.raises(AssertionError):
        run_page(page)


def test_a_block_is_left_out_only_for_a_reason(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("<!-- not executed: needs a broker -->\n```python\nraise RuntimeError\n```\n")
    run_page(page)
    page.write_text("<!-- not executed: -->\n```python\npass\n```\n")
    with pytest.raises(ValueError, match="needs a reason"):
        run_page(page)


def test_only_penstock_commands_of_a_console_block_count():
    (block,) = snippets("<!-- executed -->\n```console\n$ penstock run 'my app.py'\nrows\n$ ls\n```\n")
    assert block.note == _EXECUTED
    assert block.commands == [["penstock", "run", "my app.py"]]


def test_a_failing_command_fails_the_page_with_what_it_printed():
    with pytest.raises(AssertionError, match="No such command"):
        run_command(["penstock", "no-such-command"], "page.md:1")
