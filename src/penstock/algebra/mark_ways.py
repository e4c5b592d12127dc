"""How marks of groups get past a box: what a box says of the way to the streams that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.algebra.expressions.expression import Expression


@dataclass(frozen=True)
class Along:
    """Through a box with one input."""

    time: str
    """The attribute of the input that the time behind is, or is computed from."""
    names: Mapping[str, str]
    """What columns of the input are called behind."""
    computed: Mapping[str, Expression] | None = None
    """How columns behind are computed; None where they are as they came."""


@dataclass(frozen=True)
class Branching:
    """One of the streams that come together in a box."""

    names: Mapping[str, str]
    """What its columns, or columns that must equal them, are called behind."""
    time: str
    shift: int = 0
    """What is added to its marks to make them marks of what leaves."""


@dataclass(frozen=True)
class Together:
    """Through a box that brings streams together: each of them can hold a group back."""

    streams: tuple[Branching, ...]
    parts: bool = False
    """Whether parts of one stream are that stream again behind."""
