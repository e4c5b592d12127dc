"""The cases of LMerge: which algorithm is enough for what is known of all inputs (lmerge.md III-C, IV-G)."""

from __future__ import annotations

from typing import Final

from penstock.algebra.temporal.properties import Properties

R0: Final = "R0"
R1: Final = "R1"
R2: Final = "R2"
R3: Final = "R3"
R4: Final = "R4"
R3_SEPARATE: Final = "R3-"
MEANINGS: Final = {
    R0: "inserts only, Vs rises with every element",
    R1: "inserts only, Vs never falls, equal Vs in the same order in every copy",
    R2: "inserts only, Vs never falls, one event for each Vs and payload",
    R3: "one event for each Vs and payload",
    R4: "anything",
    R3_SEPARATE: "as R3, with an index for each input",
}
IN_SEQUENCE: Final = (R0, R1, R2)
"""Those that take inserts in order alone, and hold next to nothing."""


def carries(known: Properties, case: str) -> bool:
    """Whether what is known of the inputs is enough for a case.

    >>> carries(Properties(insert_only=True, ordered=True, unique=True), "R2"), carries(Properties(), "R3")
    (True, False)
    """
    in_sequence = known.insert_only and (known.ordered or known.strict)
    return {
        R0: known.insert_only and known.strict,
        R1: in_sequence and (known.deterministic or known.strict),
        R2: in_sequence and (known.unique or known.strict),
        R3: known.unique or known.strict,
        R3_SEPARATE: known.unique or known.strict,
        R4: True,
    }[case]


def simplest(known: Properties, *, at_once: bool = True) -> str:
    """The case with the least work that is enough; `at_once` if inserts leave as they come.

    >>> simplest(Properties(insert_only=True, ordered=True, deterministic=True)), simplest(Properties())
    ('R1', 'R4')
    """
    return next(case for case in ((*IN_SEQUENCE, R3, R4) if at_once else (R3, R4)) if carries(known, case))
