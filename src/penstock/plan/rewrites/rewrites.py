"""The list of rewrites: what the optimizer may do to a network. Each has a file of its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.algebra.network import Network
from penstock.errors import QueryError
from penstock.plan.plan import Arrangement, Step
from penstock.plan.rewrites.combine_filters import combine_filters
from penstock.plan.rewrites.combine_maps import combine_maps
from penstock.plan.rewrites.draft import Draft, Rewrite
from penstock.plan.rewrites.filter_in_advance import filter_in_advance
from penstock.plan.rewrites.lift_over_map import lift_over_map
from penstock.plan.rewrites.lift_over_union import lift_over_union
from penstock.plan.rewrites.swap_filters import swap_filters

MOVES: Final[Mapping[str, Rewrite]] = {
    rewrite.__name__: rewrite for rewrite in (swap_filters, lift_over_map, lift_over_union, filter_in_advance)
}
"""They move a filter."""
COMBINATIONS: Final[Mapping[str, Rewrite]] = {rewrite.__name__: rewrite for rewrite in (combine_filters, combine_maps)}
"""They make one box of several, where these stand side by side in the end."""
REWRITES: Final[Mapping[str, Rewrite]] = {**MOVES, **COMBINATIONS}


def drafted(network: Network, arrangement: Arrangement) -> Draft:
    """A network after some steps; refused if one of them cannot be done."""
    draft = Draft.of(network)
    for step in arrangement:
        if not take(draft, step):
            raise QueryError(f"'{step.box}' cannot be arranged: {step.rewrite}", network=network.name)
    return draft


def take(draft: Draft, step: Step) -> bool:
    """Take a step; whether it could be taken. Otherwise the draft is as it was."""
    rewrite = REWRITES.get(step.rewrite)
    return rewrite is not None and rewrite(draft, step.box)
