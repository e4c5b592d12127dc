"""What readers of a Delta table need no more, in a file of each beside the table's log (lmerge.md V-D).

```
 reader's driver:  tell ──> <table>/_penstock_feedback/<reader>.json ──> heard: planner of whoever writes the table
```

A file says whose it is, for which table, and below which ticks of the table's types rows are of no use to the reader.
It is sealed, and signed with the user's key. What cannot be read, or somebody else has signed, says nothing: then all
rows may be of use to its reader. So nobody else can make a writer leave rows out.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.floors import NO_FLOORS, Floors, lowest
from penstock.algebra.ticks import BEGINNING, END
from penstock.connectors.delta.commit_marks import convert_tick
from penstock.connectors.delta.table_log import TableLog
from penstock.connectors.delta.types import delta_type
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import read_sealed, write_sealed
from penstock.storage.signing import is_signed, sign

LOG = logging.getLogger("penstock.delta")
FOLDER: Final = "_penstock_feedback"
"""Delta leaves alone what is in folders whose names begin like this."""
_PURPOSE: Final = "feedback"
_FORMAT: Final = 1
_READER: Final = "reader.json"


def tell(table: Folder, floors: Floors, schema: pa.Schema, own: Folder) -> bool:
    """Say what a reader needs no more, which has a folder of its own in its checkpoint; False if there is no table."""
    if not TableLog(table).versions():
        return False
    reader, kinds = _token(own), {name: schema.field(name).type for name in floors}
    stored = {name: convert_tick(tick, kinds[name], delta_type(kinds[name])) for name, tick in floors.items()}
    news = {name: tick for name, tick in stored.items() if tick is not None}
    text = json.dumps({"format": _FORMAT, "table": _identity(table.path), "reader": reader, "floors": news})
    signed = {"said": text, "signature": sign(_PURPOSE, text.encode())}
    write_sealed(table.child(FOLDER), f"{reader}.json", signed)
    return True


def heard(table: Folder, schema: pa.Schema) -> Floors:
    """Below which ticks rows of this schema are of no use to any reader; nothing where nobody has said anything."""
    folder = table.child(FOLDER)
    names = [name for name in folder.names() if name.endswith(".json")]
    if not names:
        return NO_FLOORS
    said = lowest([_said(folder, name, _identity(table.path)) or NO_FLOORS for name in names]) or NO_FLOORS
    kinds = {name: schema.field(name).type for name in said if name in schema.names}
    carried = {name: convert_tick(said[name], delta_type(kind), kind) for name, kind in kinds.items()}
    return {name: tick for name, tick in carried.items() if tick is not None}


def _said(folder: Folder, name: str, table: str) -> dict[str, int] | None:
    """The floors in a reader's file; None, and a warning, if it is nothing that may be heeded."""
    try:
        document = read_sealed(folder, name)
        text, signature = document["said"], document["signature"]
        if not isinstance(text, str) or not isinstance(signature, str):
            raise ValueError("no text with a signature")
        if not signature.isascii() or not is_signed(_PURPOSE, text.encode(), signature):
            raise ValueError("this user has not signed it")
        return _floors(json.loads(text), name.removesuffix(".json"), table)
    except (WorldError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _warn(f"{folder.path}/{name}", str(error).splitlines()[0])
        return None


@lru_cache(maxsize=256)
def _warn(place: str, reason: str) -> None:
    """Say it once: a planner looks many times a second."""
    LOG.warning("%s is not heeded, and nothing is left out for its reader: %s", place, reason)


def _floors(said: Mapping[str, Any], reader: str, table: str) -> dict[str, int]:
    if (said["format"], said["table"], said["reader"]) != (_FORMAT, table, reader):
        raise ValueError("it is about another table, or of another version of Penstock")
    floors: dict[str, int] = said["floors"]
    if not all(type(tick) is int and BEGINNING <= tick <= END for tick in floors.values()):
        raise ValueError("a floor that is no tick")
    return floors


def _token(own: Folder) -> str:
    """The name of a reader: drawn once for each input of a checkpoint."""
    if not own.exists(_READER):
        write_sealed(own, _READER, {"reader": uuid.uuid4().hex[:12]})
    token: str = read_sealed(own, _READER)["reader"]
    return token


@lru_cache(maxsize=64)
def _identity(path: str) -> str:
    """What the table itself is called: another one at the same place has other readers."""
    return TableLog(Folder(path)).shape()[1].id
