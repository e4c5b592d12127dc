"""Which boxes never fail, whatever tuples they see: only these may see others than the user has sent them."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from penstock.algebra.box import Box
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.totality import is_total
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.filter.box import Filter
from penstock.boxes.join.box import Join
from penstock.boxes.map.box import Map
from penstock.boxes.union.box import Union

_CALL: Final = re.compile(r"(count|min|max|sum|avg)\((\*|\w+)\)", re.IGNORECASE)


def never_fails(box: Box) -> bool:
    """Whether a box gives something for every tuple, refuses none, and ends no run."""
    match box:
        case Union():
            return True
        case Filter():
            return all(is_total(predicate, box.inputs[0].schema) for predicate in box.predicates)
        case Map():
            # With a port for errors, which tuples it refuses depends on which it sees.
            total = all(is_total(expression, box.inputs[0].schema) for _, expression in box.outputs)
            return total and len(box.ports) == 1
        case Join():
            return box.pairing.predicate is None or _pairs(box, box.pairing.predicate)
        case Aggregate():
            return not box.aggregation.called and all(_adds_up(text, box) for _, text in box.outputs)
    return False


def _pairs(box: Join, predicate: Expression) -> bool:
    sides = enumerate((box.pairing.left, box.pairing.right))
    inside = [pa.field(box.pairing.inside(side, f.name), f.type) for side, schema in sides for f in schema]
    return is_total(predicate, pa.schema(inside))


def _adds_up(text: str, box: Aggregate) -> bool:
    """Whether an output is one call that overflows for no tuples: a sum of wide integers does for some."""
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return False
    function, column = call[1].lower(), call[2]
    if function not in ("sum", "avg"):
        return True
    kinds = [field.type for field in box.inputs[0].schema if field.name.casefold() == column.casefold()]
    return all(pa.types.is_floating(k) or (pa.types.is_integer(k) and k.bit_width < 64) for k in kinds)
