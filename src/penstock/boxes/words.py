"""What is said of a box in the list of boxes: what it is for, what each of its arguments means, and an example.

The module `card` of a room has them. Names and defaults of arguments are read from the method that builds the box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.algebra.box import Box

NAME: Final = "what the box is called in explain, status and errors; made up if not given"
BY: Final = "the attributes that make a group"


@dataclass(frozen=True)
class Words:
    """What is said of one way to build a box."""

    name: str
    """Of the method that builds it."""
    box: type[Box]
    owner: str
    """What the method is called on: a stream, the network or `pk`."""
    summary: str
    gives: str
    example: str
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Of every argument."""
    function: Callable[..., Any] | None = None
    """What builds it, where that is no method of a stream."""
    page: str | None = None
    """Its page in the documentation, where it is another than that of the box."""
