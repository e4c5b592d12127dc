"""How many cases property tests try: a part of them in `make test`, which is to take minutes; all in `make test-long`.

`PENSTOCK_THOROUGH=1` tries all, `PENSTOCK_THOROUGH=10` ten times as many.
"""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = float(os.environ.get("PENSTOCK_THOROUGH", "0.25"))
LEAST: Final = 3


def tries(all_of_them: int) -> int:
    """How many cases to try where there are so many in all."""
    return max(min(LEAST, all_of_them), round(all_of_them * THOROUGH))
