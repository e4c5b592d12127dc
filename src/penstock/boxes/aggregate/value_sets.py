"""Sets of values that count once, as they leave a train: for each pane and group a list of codes of a dictionary.

```
 rows of a train      pane group value           pane group  values
                         0 80    host-7              0 80    [0, 1]         dictionary: host-7, host-3
                         0 22    host-7     ──>      0 22    [0]
                         0 80    host-3
```

A value is looked up once, in the vocabulary of the process. From there on its number travels, in the place of a text
with a time and a key. The dictionary is what the vocabulary knows at the end of the train, in an order that depends on
the values alone, so lists have the same order wherever they are made.

Where values hardly repeat, or are too long, they are sent as they are: to know them all would be of no use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.boxes.aggregate.dense_groups import Cells, Placed
from penstock.operators.key_words import has_words
from penstock.operators.pairs import Pieces, distinct_pairs
from penstock.operators.vocabulary import Vocabulary, vocabulary_with_room

SETS: Final = "#set"
"""The column of lists."""
FEW_ROWS: Final = 65_536
"""Shorter trains send values as they are: to add to a set, a bucket has to look up all that it knows of the pane."""
SAMPLE: Final = 16_384
"""Values that are looked at to judge whether they repeat."""
LEAST_MET: Final = 256
"""So many of them, at least, must be there already: as if there were half a million values, evenly."""

_Piece = tuple[Cells, npt.NDArray[np.uint32], npt.NDArray[np.int32]]


def sets_part(held: str) -> str:
    """The part of traffic and state with the sets of held values."""
    return f"{held} sets"


class SetsOfTrain:
    """Gathers the values of a train by cell of the table of its groups."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._waiting: list[tuple[Placed, pa.Array]] = []
        self._rows = 0
        self._vocabulary: Vocabulary | None = None
        self._judged = False
        self._pieces: list[_Piece] = []
        self._plain: list[tuple[Placed, pa.Array]] = []
        self.plain_bytes = 0

    @staticmethod
    def suits(kind: pa.DataType) -> bool:
        return has_words(kind)

    def add(self, placed: Placed, values: pa.Array) -> None:
        if values.null_count:
            valid = pc.is_valid(values)
            values = values.filter(valid)
            placed = Placed(placed.cells[valid.to_numpy(zero_copy_only=False)], placed.table)
        if not len(values):
            return
        if self._judged:
            self._take(placed, values)
            return
        self._waiting.append((placed, values))
        self._rows += len(values)
        if self._rows >= FEW_ROWS:
            self._judge(self._repeat())

    def sets(self, keys: list[str]) -> Iterator[pa.Table]:
        """What was gathered as sets: the pane and the keys, with these names, and `SETS`."""
        self._judge(False)
        if self._vocabulary is not None and self._pieces:
            known = self._vocabulary.ordered()
            for table, pieces in _joined(self._pieces):
                most = max(int(cells.max()) for cells, _ in pieces) + 1
                ranked = [(cells, known.ranks.take(numbers)) for cells, numbers in pieces]
                pairs = distinct_pairs(ranked, most, len(known.entries))
                coded = pa.DictionaryArray.from_arrays(pa.array(pairs.seconds), known.entries, safe=False)
                lists = pa.ListArray.from_arrays(pa.array(pairs.offsets.astype(np.int32)), coded)
                yield pa.table([*table.columns(pairs.firsts), lists], names=[*keys, SETS])
        self._pieces.clear()
        self._rows, self._vocabulary, self._judged = 0, None, False

    def plain(self, names: list[str]) -> Iterator[pa.Table]:
        """What was gathered as it is: the pane, the keys and the values, with these names."""
        gathered, self._plain, self.plain_bytes = self._plain, [], 0
        for placed, values in gathered:
            yield pa.table([*placed.table.columns(placed.cells), values], names=names)

    def _repeat(self) -> bool:
        """Whether values repeat so often that a vocabulary is worth it."""
        pieces, left = [], SAMPLE
        for _, values in self._waiting:
            pieces.append(_decoded(values.slice(0, left)))
            left -= len(pieces[-1])
        sample = pa.concat_arrays(pieces)
        return bool(len(sample) - len(pc.unique(sample)) >= LEAST_MET)

    def _judge(self, repeat: bool) -> None:
        if self._judged:
            return
        self._judged = True
        self._vocabulary = vocabulary_with_room(self._kind) if repeat else None
        waiting, self._waiting = self._waiting, []
        for placed, values in waiting:
            self._take(placed, values)

    def _take(self, placed: Placed, values: pa.Array) -> None:
        numbers = None if self._vocabulary is None else _numbers(self._vocabulary, values)
        if numbers is not None:
            self._pieces.append((placed.table, placed.cells.astype(np.uint32), numbers))
            return
        values = _decoded(values)
        self._plain.append((placed, values))
        self.plain_bytes += values.nbytes + placed.cells.nbytes


def _numbers(vocabulary: Vocabulary, values: pa.Array) -> npt.NDArray[np.int32] | None:
    if not pa.types.is_dictionary(values.type):
        return vocabulary.numbers(values)
    entries = vocabulary.numbers(values.dictionary)
    return None if entries is None else entries.take(values.indices.to_numpy())


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _joined(pieces: list[_Piece]) -> Iterator[tuple[Cells, Pieces]]:
    """Pieces that follow one another, together where their cells stand for the same."""
    begin = 0
    for at in range(1, len(pieces) + 1):
        if at == len(pieces) or not pieces[at][0].same_places(pieces[begin][0]):
            yield pieces[begin][0], [(cells, numbers) for _, cells, numbers in pieces[begin:at]]
            begin = at
