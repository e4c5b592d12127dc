"""The key of a user: what a process may take from a checkpoint as written by the same user, and nobody else.

A network is code, so its plan is unpickled only if it carries a signature of this key. The key lies in the user's home,
for nobody else to read, or in the environment where machines share a checkpoint: never in the checkpoint itself, where
whoever can write a plan could sign it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from penstock.errors import WorldError

VARIABLE: Final = "PENSTOCK_KEY"
_BYTES: Final = 32


def sign(purpose: str, content: bytes) -> str:
    """A signature of a content, which fits this purpose and no other."""
    return hmac.new(_key(), f"{purpose}\n{digest(content)}".encode(), hashlib.sha256).hexdigest()


def is_signed(purpose: str, content: bytes, signature: str) -> bool:
    """Whether this user has signed a content for this purpose."""
    return hmac.compare_digest(sign(purpose, content), signature)


def digest(content: bytes) -> str:
    """The SHA-256 of a content."""
    return hashlib.sha256(content).hexdigest()


def key_file() -> Path:
    """Where the key lies, unless the environment has one."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "penstock" / "key"


def _key() -> bytes:
    given = os.environ.get(VARIABLE)
    if given:
        return given.encode()
    path = key_file()
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077 or path.stat().st_uid != os.geteuid():
            raise WorldError(
                f"the key {path} is not for this user alone",
                expected="a file of your own that nobody else can read or write (chmod 600)",
                hint="delete it if others may have read it: another one is made",
            )
        return path.read_bytes()
    except OSError as failure:
        raise WorldError(
            f"the key {path} cannot be read or made: {failure}",
            hint=f"make the folder writable, or give a key by the environment variable {VARIABLE}",
        ) from failure


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".key-{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_hex(_BYTES).encode())
    finally:
        os.close(descriptor)
    try:
        os.link(unfinished, path)  # the first of two processes wins
    except FileExistsError:
        pass
    finally:
        os.unlink(unfinished)
