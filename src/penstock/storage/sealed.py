"""Small documents that say themselves whether they are whole: JSON, and a seal behind it.

```
 {"batch": 41, ...}
 penstock 2 8c0f3a51 512
```

The seal names the format, the checksum and the length of what stands before it. A document that was cut short, emptied
or changed by a single bit does not fit its seal, and is refused with its name and what to do. One that another version
of Penstock wrote in another format is refused, too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from penstock.errors import WorldError
from penstock.storage.folder import Folder

FORMAT: Final = 2
"""The format of everything in a checkpoint. It grows when an older Penstock could misread what this one writes."""

RESTORE: Final = "restart, which goes back to the last batch that is whole; or restore the checkpoint from a copy"
_SIGNED: Final = "penstock"


def seal(document: Mapping[str, Any]) -> bytes:
    """A document with its seal.

    >>> unseal(seal({"batch": 3}), "a file")
    {'batch': 3}
    """
    text = json.dumps(document).encode()
    return text + f"\n{_SIGNED} {FORMAT} {checksum(text):08x} {len(text)}\n".encode()


def unseal(content: bytes, place: str) -> dict[str, Any]:
    """The document, if it is whole."""
    text, _, last = content.rstrip(b"\n").rpartition(b"\n")
    match last.decode(errors="replace").split(" "):
        case [signed, number, check, length] if signed == _SIGNED and number.isdigit():
            if (check, length) != (f"{checksum(text):08x}", str(len(text))):
                raise damaged(place, "a content that does not fit its checksum")
            if int(number) != FORMAT:
                raise other_format(place, int(number), FORMAT)
            document: dict[str, Any] = json.loads(text)
            return document
    raise damaged(place, "no seal at its end" if content else "an empty file")


def read_sealed(folder: Folder, name: str) -> dict[str, Any]:
    """A sealed document of a folder."""
    return unseal(folder.read(name).to_pybytes(), f"{folder.path}/{name}")


def write_sealed(folder: Folder, name: str, document: Mapping[str, Any]) -> None:
    folder.write(name, seal(document))


def checksum(content: bytes | pa.Buffer) -> int:
    """CRC-32: 3.5 GB/s, and finds every change of up to 32 bits in a row."""
    return zlib.crc32(content)


class OtherFormatError(WorldError):
    """Whole, but written in another format than this version of Penstock reads."""


def other_format(what: str, found: int, known: int) -> OtherFormatError:
    """The error for what is written in another format."""
    newer = found > known
    return OtherFormatError(
        f"{what} was written by {'a newer' if newer else 'an older'} version of Penstock",
        expected=f"format {known}",
        found=f"format {found}",
        hint="run the network with the newer version"
        if newer
        else "let the older version finish the run, or start with another checkpoint",
    )


def damaged(place: str, found: str) -> WorldError:
    """The error for a file that cannot be what was written."""
    return WorldError(f"{place} is damaged", expected="what Penstock wrote", found=found, hint=RESTORE)
