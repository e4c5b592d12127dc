"""Time zones of what is computed: the kernel knows instants, and gives all of them as UTC."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def zone_of(kinds: Iterable[pa.DataType]) -> str | None:
    """The only zone among the timestamps in these types; None if there is none, or several.

    >>> zone_of([pa.timestamp("us", "Asia/Tokyo"), pa.list_(pa.timestamp("ms", "Asia/Tokyo")), pa.int64()])
    'Asia/Tokyo'
    """
    zones = {zone for kind in kinds for zone in _zones(kind)}
    return zones.pop() if len(zones) == 1 else None


def in_zone(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """The type of the same instants in another zone; a type without zones as it is."""
    types = pa.types
    if zone is None:
        return kind
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if types.is_list(kind):
        return pa.list_(in_zone(kind.value_type, zone))
    if types.is_struct(kind):
        return pa.struct([field.with_type(in_zone(field.type, zone)) for field in kind])
    if types.is_map(kind):
        return pa.map_(in_zone(kind.key_type, zone), in_zone(kind.item_type, zone))
    return kind


def _zones(kind: pa.DataType) -> set[str]:
    if pa.types.is_timestamp(kind):
        return set() if kind.tz is None else {kind.tz}
    if pa.types.is_dictionary(kind):
        return _zones(kind.value_type)
    return {zone for number in range(kind.num_fields) for zone in _zones(kind.field(number).type)}
