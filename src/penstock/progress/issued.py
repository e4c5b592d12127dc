"""What an input had stated before a batch: by it the batch's tuples are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.source import Source
from penstock.progress.extremes import Extremes
from penstock.progress.shards import extremes_of, shard_marks, source_marks


@dataclass(frozen=True)
class Issued:
    """What an input had stated before a batch: what is below it is late."""

    stands: Marks = UNKNOWN
    """The marks of the whole input, which a shard that appears must not take back."""
    shards: Mapping[str, Marks] = field(default_factory=dict)
    """The marks of each open shard."""
    reached: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The largest value that each shard has delivered, in ticks that grow, by attribute."""

    def before(self, shard: str) -> Marks:
        """What a shard had stated.

        One that has just appeared, or comes back after it was closed, starts where its input stands: windows below have
        left, and what would belong there is late.
        """
        return self.shards.get(shard, self.stands)

    def to_json(self) -> dict[str, Any]:
        return {
            "stands": self.stands.to_json(),
            "shards": {shard: marks.to_json() for shard, marks in self.shards.items()},
            "reached": self.reached,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Issued:
        shards = {shard: Marks.from_json(marks) for shard, marks in document["shards"].items()}
        return Issued(Marks.from_json(document["stands"]), shards, document["reached"])


def issued_by(source: Source, shards: Mapping[str, Extremes]) -> Issued:
    """What an input and each of its open shards have stated, by what is known of its shards."""
    return Issued(
        source_marks(source, shards).with_ended(False),
        {shard: shard_marks(source, seen) for shard, seen in shards.items() if not seen.gone},
        {
            shard: {track.attribute: extremes_of(source, track, seen).largest for track in source.tracks}
            for shard, seen in shards.items()
        },
    )
