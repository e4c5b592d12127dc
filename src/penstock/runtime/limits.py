"""How many refused records and late tuples a run puts up with: `max_refused=` and `max_late=`.

They are judged after the commit of every batch, on what each input has brought since the first batch of its checkpoint.
What is committed stays, so a run that was ended by a limit goes on from there when it is started with a wider one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from penstock.algebra.network import Network
from penstock.errors import QueryError, WorldError
from penstock.runtime.board import Record
from penstock.runtime.promises import promises

if TYPE_CHECKING:
    from penstock.runtime.settings import Settings

Most = int | str
"""A number, or a share such as "5%"."""
SHARE_FROM: Final = 1000
"""A share is judged when an input has brought so much, or has ended: of three records, one is no trend."""


@dataclass(frozen=True)
class Limit:
    """At most so many, or such a share."""

    text: str
    number: int | None = None
    share: Fraction | None = None

    @staticmethod
    def of(name: str, given: Most) -> Limit:
        """Read what somebody has written.

        >>> Limit.of("max_late", "5%").exceeded(51, 1000, ended=False)
        True
        """
        text = str(given).strip().replace("_", "")
        if not isinstance(given, bool | float):
            if text.isdecimal():
                return Limit(f"{int(text):,}", number=int(text))
            digits = text.removesuffix("%").strip()
            if text.endswith("%") and digits.replace(".", "", 1).isdecimal() and float(digits) <= 100:
                return Limit(f"{digits}%", share=Fraction(digits) / 100)
        raise QueryError(
            f"{name}={given!r} is no limit", expected="a number such as 100, or a share such as '5%'", found=repr(given)
        )

    def exceeded(self, count: int, read: int, *, ended: bool) -> bool:
        if self.number is not None:
            return count > self.number
        assert self.share is not None
        return count > self.share * read and (ended or read >= SHARE_FROM)


def judge(network: Network, settings: Settings, record: Record) -> None:
    """End the run if an input has brought more than is put up with."""
    for source in network.sources:
        count = record.inputs.get(source.name)
        if count is None:
            continue
        shards = record.shards.get(source.name, {})
        ended = bool(shards) and all(seen.ended for seen in shards.values())
        for name, number, what in (
            ("max_refused", count.refused, "records were refused"),
            ("max_late", count.late, "tuples were late"),
        ):
            given = getattr(settings, name)
            if given is None:
                continue
            limit = Limit.of(name, given)
            if limit.exceeded(number, count.read, ended=ended):
                raise _exceeded(network, source.name, record, limit, name, f"{number:,} of {count.read:,}", what)


def _exceeded(
    network: Network, source: str, record: Record, limit: Limit, name: str, counts: str, what: str
) -> WorldError:
    if name == "max_refused":
        told = record.refusals[source].sentence() if source in record.refusals else ""
        mend = "mend the input or its schema"
    else:
        told = "; ".join(str(p) for p in promises(network, record) if p.input == source)
        mend = "declare a weaker progress policy"
    return WorldError(
        f"{counts} {what}, more than {name} allows",
        network=network.name,
        box=source,
        expected=f"at most {limit.text}",
        found=f"{counts}{f': {told}' if told else ''}",
        hint=f"{mend}, or allow more with {name}= (--{name.replace('_', '-')}); what was committed up to batch "
        f"{record.batch} stays, and a wider limit goes on from there with the same checkpoint",
    )
