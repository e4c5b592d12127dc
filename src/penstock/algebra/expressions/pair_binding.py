"""Binding a predicate to the schemas of two streams, or refusing it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from penstock.algebra.expressions.binding import bind_tree, parse
from penstock.algebra.expressions.pairing import SIDES, Pairing
from penstock.errors import QueryError


def bind_pair(text: str | None, left: pa.Schema, right: pa.Schema, names: tuple[str, str] = SIDES) -> Pairing:
    """Bind a predicate to two schemas, or refuse it.

    >>> keyed = pa.schema({"k": pa.int64()})
    >>> bound = bind_pair("l.k = r.k AND r.x > 1", keyed, pa.schema({"k": pa.int64(), "x": pa.int8()}))
    >>> bound.equalities, bound.schema.names
    ((('k', 'k'),), ['l_k', 'r_k', 'x'])
    """
    words = [name.casefold() for name in names if isinstance(name, str) and name.isidentifier()]
    if len(words) != len(names) or len(set(words)) != 2 or len(words) != 2:
        raise QueryError("the sides need two different names", found=repr(names), hint="names=('l', 'r')")
    if text is None:
        return Pairing(left, right, names, None, ())
    if not isinstance(text, str):
        raise QueryError("a predicate is a text", expected="such as 'l.k = r.k'", found=repr(text))
    combined = pa.schema(
        [
            pa.field(f"{name}.{field.name}", field.type)
            for name, schema in zip(names, (left, right), strict=True)
            for field in schema
        ]
    )
    tree = _resolve(parse(text, what="predicate"), left, right, names)
    bound = bind_tree(tree, text, combined, what="predicate")
    if not pa.types.is_boolean(bound.type):
        raise QueryError(
            f"the predicate {text!r} is no condition",
            expected="a boolean",
            found=f"{bound.type}",
            hint="compare the sides, for example 'l.k = r.k'",
        )
    pairing = Pairing(left, right, names, bound, ())
    found = [_equated(conjunct, pairing) for conjunct in _conjuncts(tree)]
    equated = tuple(dict.fromkeys(pair for pair in found if pair is not None))
    equalities = tuple(pair for pair in equated if _same_bits(left.field(pair[0]).type, right.field(pair[1]).type))
    return Pairing(left, right, names, bound, equalities, equated, set(found) == set(equalities))


def _same_bits(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether equal values of two types are equal in every bit."""
    return bool(one == other and not pa.types.is_floating(one) and not pa.types.is_nested(one))


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        for conjunct in (tree.left, tree.right):
            yield from _conjuncts(conjunct)
    else:
        yield tree


def _equated(conjunct: exp.Expr, pairing: Pairing) -> tuple[str, str] | None:
    """The (left column, right column) that a conjunct compares for equality, if that is what it does."""
    if not (isinstance(conjunct, exp.EQ) and all(isinstance(s, exp.Column) for s in (conjunct.left, conjunct.right))):
        return None
    sides = dict(pairing.side_of(node.name) for node in (conjunct.left, conjunct.right))
    return (sides[0], sides[1]) if set(sides) == {0, 1} else None


def _resolve(tree: exp.Expr, left: pa.Schema, right: pa.Schema, names: tuple[str, str]) -> exp.Expr:
    """The tree with every column replaced by its inside name."""
    schemas = dict(zip(names, (left, right), strict=True))

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        first, *rest = [part.name for part in node.parts]
        named = next((name for name in names if name.casefold() == first.casefold()), None)
        if named is not None and rest:
            side, column, fields = named, _known(rest[0], schemas[named], f"{named}."), rest[1:]
        else:
            owners = [name for name, schema in schemas.items() if _find(first, schema) is not None]
            if len(owners) != 1:
                raise QueryError(
                    f"column '{first}' of the predicate is {'in both streams' if owners else 'in neither stream'}",
                    expected=" or ".join(f"{name}.{c}" for name, schema in schemas.items() for c in schema.names),
                    hint=f"say {names[0]}.{first} or {names[1]}.{first}" if owners else None,
                )
            side, column, fields = owners[0], _known(first, schemas[owners[0]], ""), rest
        made: exp.Expr = exp.column(exp.to_identifier(f"{side}.{column}", quoted=True))
        for field in fields:
            made = exp.Dot(this=made, expression=exp.to_identifier(field, quoted=True))
        return made

    if tree.find(exp.Query) is not None:
        raise QueryError("a subquery in the predicate", hint="join the streams instead")
    return tree.copy().transform(replaced)


def _find(name: str, schema: pa.Schema) -> str | None:
    if name in schema.names:
        return name
    same = [known for known in schema.names if known.casefold() == name.casefold()]
    return str(same[0]) if len(same) == 1 else None


def _known(name: str, schema: pa.Schema, prefix: str) -> str:
    found = _find(name, schema)
    if found is None:
        raise QueryError(
            f"unknown column '{prefix}{name}' in the predicate",
            expected=f"one of {', '.join(prefix + c for c in schema.names)}",
        )
    return found
