"""The best arrangement of a network's boxes, by what is known of their cost and selectivity (aurora.md 3.1).

One subnetwork is looked at at a time: boxes between inputs, outputs and streams that several boxes read, such as those
with a connection point. Steps that make it cheaper are taken one after the other, the best first. For filters side by
side that ends in the order of (1 - s) / c, which is the best one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.algebra.box import Box, Output, Port, Stateful
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.plan.plan import Arrangement, Step
from penstock.plan.rewrites.draft import Draft, Node, is_where
from penstock.plan.rewrites.rewrites import COMBINATIONS, MOVES, drafted, take

LEAST_SAVING: Final = 0.1
"""A change must save so much of what the subnetwork costs: less is noise, and each change costs a little."""
LEAST_SHARE: Final = 0.02
"""And so much of what all boxes cost: a subnetwork that hardly counts is left alone."""
_TINY: Final = 1e-9
_SMALLEST: Final = 1e-3
"""No filter is trusted to drop everything: behind such a one, nothing would be worth a step."""
_WITHOUT_GAIN: Final = "lift_over_union"
"""A rewrite that is worth something only with others that it makes possible."""


@dataclass(frozen=True)
class BoxCost:
    """What is known of a box."""

    seconds: float = 0.0
    """For each tuple that it takes."""
    selectivity: float = 1.0
    """Tuples that leave it for each that it takes."""


@dataclass(frozen=True)
class Statistics:
    """What is known of the boxes of a network, and how many tuples its inputs bring."""

    boxes: Mapping[str, BoxCost] = field(default_factory=dict)
    """By the name of the box that its work is told of."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    call: float = 0.0
    """Seconds that a box costs in a batch, however few tuples it takes."""


@dataclass(frozen=True)
class Proposal:
    """A better arrangement, and by how much it is expected to be better."""

    arrangement: Arrangement
    boxes: tuple[str, ...]
    """The subnetwork that it changes, in the order of the new arrangement."""
    before: tuple[str, ...]
    """In the order that it has now."""
    saving: float
    """Of the subnetwork's cost: between 0 and 1."""


def propose(network: Network, now: Arrangement, known: Statistics) -> Proposal | None:
    """The change of one subnetwork that saves most; None if none is worth it."""
    plain, combined = without_combining(now), len(now) - len(without_combining(now))
    current, owners, shape = drafted(network, plain), _owners(network, plain), drafted(network, now).shape()
    whole = sum(costs(current, known).values())
    best: tuple[float, Proposal] | None = None
    for members in subnetworks(network):
        others = tuple(step for step, owner in zip(plain, owners, strict=True) if owner not in members)
        steps = (*others, *_improved(Draft.of(network), members, known, deeply=True)[1])
        better = drafted(network, steps)
        arrangement = (*steps, *_combining(better))
        together = drafted(network, arrangement)
        if together.shape() == shape:
            continue
        old, new = (_cost(draft, members, known) for draft in (current, better))
        # Boxes may be combined also where their order stays.
        saved = old - new + (0.0 if combined else known.call * (len(better.nodes) - len(together.nodes)))
        if saved < max(LEAST_SAVING * old, LEAST_SHARE * whole, _TINY):
            continue
        if best is None or saved > best[0]:
            boxes, before = (tuple(node.name for node in _members(draft, members)) for draft in (better, current))
            best = saved, Proposal(arrangement, boxes, before, saved / old)
    return best[1] if best is not None else None


def costs(draft: Draft, known: Statistics) -> dict[str, float]:
    """What every box of a draft costs for the tuples of a batch, in seconds, by its name."""
    rates: dict[int, _Rate] = {}
    found: dict[str, float] = {}
    copied = {node.copy_of for node in draft.nodes if node.copy_of}
    for node in draft.in_order():
        if isinstance(node.box, Output):
            continue
        if isinstance(node.box, Source):
            tuples = known.inputs.get(node.name, 0.0)
            rates[id(node)] = _Rate(tuples, tuples)
            continue
        coming = [rates[id(end.node)] for end in node.inputs]
        tuples, whole = sum(rate.tuples for rate in coming), sum(rate.whole for rate in coming)
        cost = _known(node, draft, known)
        selectivity = max(cost.selectivity, _SMALLEST)
        found[node.name] = tuples * cost.seconds + (known.call if tuples else 0.0)
        leaving = whole * selectivity
        if isinstance(node.box, Stateful):
            # Of pairs as many are missing as of the tuples on either side.
            rates[id(node)] = _Rate(leaving * math.prod(rate.share for rate in coming), leaving)
        elif node.copy_of:
            rates[id(node)] = _Rate(tuples * selectivity, whole)
        elif node.name in copied:
            # What was dropped in advance is not there to be dropped once more.
            rates[id(node)] = _Rate(tuples, leaving)
        else:
            rates[id(node)] = _Rate(tuples * selectivity, leaving)
    return found


@dataclass(frozen=True)
class _Rate:
    """How many tuples leave a box in a batch."""

    tuples: float
    whole: float
    """How many they would be if nothing were dropped in advance."""

    @property
    def share(self) -> float:
        return self.tuples / self.whole if self.whole else 1.0


def subnetworks(network: Network) -> list[frozenset[str]]:
    """The boxes between borders: inputs, outputs, and streams that several boxes read or none."""
    together: dict[str, set[str]] = {b.name: {b.name} for b in network.boxes if not isinstance(b, Source | Output)}
    for box in network.boxes:
        for port in () if isinstance(box, Source | Output) else box.inputs:
            if isinstance(port.box, Source) or _readers(network, port.box) != 1:
                continue
            joined = together[port.box.name] | together[box.name]
            for name in joined:
                together[name] = joined
    return sorted({frozenset(names) for names in together.values()}, key=sorted)


def _readers(network: Network, box: Box) -> int:
    return sum(len(network.consumers(Port(box, index))) for index in range(len(box.ports)))


def _improved(draft: Draft, members: frozenset[str], known: Statistics, *, deeply: bool) -> tuple[Draft, list[Step]]:
    """Take the best step again and again; `deeply` also such that are worth something only with others behind them."""
    steps: list[Step] = []
    cost = _cost(draft, members, known)
    while True:
        found: list[tuple[float, Draft, list[Step]]] = []
        for node in _members(draft, members):
            if not is_where(node.box):
                continue
            for name in MOVES:
                step, after = Step(name, node.name), draft.copied()
                if (name == _WITHOUT_GAIN and not deeply) or not take(after, step):
                    continue
                more: list[Step] = []
                if name == _WITHOUT_GAIN:
                    after, more = _improved(after, members, known, deeply=False)
                found.append((_cost(after, members, known), after, [step, *more]))
        best = min(found, key=lambda each: each[0], default=None)
        if best is None or best[0] >= cost * (1 - _TINY):
            return draft, steps
        cost, draft = best[0], best[1]
        steps += best[2]


def _cost(draft: Draft, members: frozenset[str], known: Statistics) -> float:
    found = costs(draft, known)
    return sum(found[node.name] for node in _members(draft, members))


def _known(node: Node, draft: Draft, known: Statistics) -> BoxCost:
    """What is known of a box; of a filter in advance that was never there, what is known of the filter itself."""
    while node.account not in known.boxes and node.copy_of:
        original = draft.node(node.copy_of)
        if original is None:
            break
        node = original
    return known.boxes.get(node.account, BoxCost())


def _members(draft: Draft, members: frozenset[str]) -> list[Node]:
    boxes = [n for n in draft.in_order() if not isinstance(n.box, Source | Output)]
    return [n for n in boxes if _origin(draft, n.name) in members]


def without_combining(arrangement: Arrangement) -> Arrangement:
    """The steps that put filters into an order; which boxes stand side by side then, and are combined, follows."""
    return tuple(step for step in arrangement if step.rewrite not in COMBINATIONS)


def _combining(draft: Draft) -> list[Step]:
    """The steps that combine all filters, and all maps, which stand side by side."""
    found, after = list[Step](), draft.copied()
    for name in [node.name for node in reversed(draft.in_order())]:
        found += [step for rewrite in COMBINATIONS if take(after, step := Step(rewrite, name))]
    return found


def _owners(network: Network, arrangement: Arrangement) -> list[str]:
    """The box of the user's network that each step is about."""
    draft, found = Draft.of(network), list[str]()
    for step in arrangement:
        found.append(_origin(draft, step.box))
        take(draft, step)
    return found


def _origin(draft: Draft, name: str) -> str:
    """The box of the user's network that a box belongs to."""
    node = draft.node(name)
    while node is not None and node.copy_of:
        original = draft.node(node.copy_of)
        if original is None:
            return node.copy_of
        node = original
    return node.account if node is not None else name


def disturbed(draft: Draft) -> frozenset[str]:
    """The boxes whose selectivity is not their own while a filter works in advance: it, and the box in between."""
    copies = [node for node in draft.nodes if node.copy_of]
    return frozenset({name for node in copies for name in (node.copy_of, *_behind(draft, node))})


def _behind(draft: Draft, node: Node) -> set[str]:
    """The box with state that comes first behind a box."""
    takers = [taker for taker, _ in draft.readers(node)]
    further = (_behind(draft, taker) for taker in takers if not isinstance(taker.box, Stateful))
    return {taker.name for taker in takers if isinstance(taker.box, Stateful)}.union(*further)
