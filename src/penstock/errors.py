"""What can go wrong, sorted by whose fault it is.

`QueryError` is the user's query, `WorldError` the outside world (files, folders, tables), `InternalError` our own bug.
Every error says where it happened, what was expected, what came, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping


class PenstockError(Exception):
    """The root of all errors that Penstock raises on purpose.

    >>> print(QueryError("unknown column 'srcIp'", box="flows", expected="one of srcIP, destIP", hint="fix the name"))
    box 'flows': unknown column 'srcIp'
      expected: one of srcIP, destIP
      to do: fix the name
    """

    def __init__(
        self,
        what: str,
        *,
        network: str | None = None,
        box: str | None = None,
        port: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.network = network
        self.box = box
        self.port = port
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        place = ", ".join(
            f"{kind} '{name}'"
            for kind, name in (("network", self.network), ("box", self.box), ("port", self.port))
            if name is not None
        )
        lines = [f"{place}: {self.what}" if place else self.what]
        lines += [
            f"  {label}: {text}"
            for label, text in (("expected", self.expected), ("found", self.found), ("to do", self.hint))
            if text is not None
        ]
        return "\n".join(lines)

    def located(self, *, network: str | None = None, box: str | None = None, port: str | None = None) -> PenstockError:
        """The same error, told where it happened (places already known are kept)."""
        self.network = self.network or network
        self.box = self.box or box
        self.port = self.port or port
        return self


class PromiseWarning(UserWarning):
    """The data of an input does not keep what its declaration promises."""


class QueryError(PenstockError):
    """The network or an expression in it is wrong; nothing was started."""


class WorldError(PenstockError):
    """A file, folder, table or service outside is missing, broken or refuses."""


class InternalError(PenstockError):
    """An invariant of Penstock itself is broken: please report it."""


_KINDS: dict[str, type[PenstockError]] = {"query": QueryError, "world": WorldError, "internal": InternalError}
_FIELDS = ("what", "network", "box", "port", "expected", "found", "hint")


def fields_of(error: PenstockError) -> dict[str, str]:
    """An error as plain texts, to be told to another process.

    >>> fields_of(QueryError("no such box", box="flows"))
    {'kind': 'query', 'what': 'no such box', 'box': 'flows'}
    """
    kind = next((name for name, known in _KINDS.items() if isinstance(error, known)), "internal")
    texts = {name: getattr(error, name) for name in _FIELDS}
    return {"kind": kind, **{name: str(text) for name, text in texts.items() if text is not None}}


def error_of(fields: Mapping[str, str]) -> PenstockError:
    """The error that was told.

    >>> print(error_of(fields_of(QueryError("no such box", box="flows"))))
    box 'flows': no such box
    """
    places = {name: fields[name] for name in _FIELDS[1:] if name in fields}
    return _KINDS[fields["kind"]](fields["what"], **places)
