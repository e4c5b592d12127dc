"""The packets that `q7` joins: requests on one link, and replies on another with addresses and ports swapped.

Packet i of either link arrives at `EPOCH + i / rate` and carries that time minus a delay drawn evenly from 0 to 2
seconds, as all traffic here does. A conversation is one of `groups` quadruples of addresses and ports.

Four of five replies answer the request that arrived a while before, a while drawn evenly on a logarithmic scale from
50 ms to a minute: so every band finds replies that a narrower one does not. Every request also meets the other replies
of its conversation, by chance, the more the wider the band: at 5,000 packets a second and 400,000 conversations that
makes 0.29, 0.85 and 2.25 replies to a request within 1, 10 and 60 seconds.

Which conversation request i belongs to is a hash of i, so that each file of replies is written without looking at the
requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock_bench.traffic import DELAY_US, EPOCH_US, SCHEMA, SERVICES, address

ANSWERS: Final = 0.8
"""The part of the replies that answer a request of their own."""
SOONEST_S: Final = 0.05
LATEST_S: Final = 60.0

_PORTS_PER_HOST: Final = 16
_FIRST_PORT: Final = 32_768
_PORTS: Final = 28_231  # a prime: consecutive conversations of a host get different ports
_FIRST_SERVER: Final = 1 << 30
_SERVERS: Final = 4_093


@dataclass(frozen=True)
class Requests:
    """The packets of the first link."""

    rows: int
    groups: int
    rate: int = 5_000
    """Packets per second of event time."""
    file_rows: int = 250_000
    seed: int = 7

    @property
    def files(self) -> int:
        return math.ceil(self.rows / self.file_rows)

    def packets(self, index: int) -> pa.Table:
        """The packets of one file, in arrival order."""
        number, random = self._stretch(index)
        return self._table(number, random, *quadruples(self.conversations(number)))

    def conversations(self, number: np.ndarray) -> np.ndarray:
        """The conversation of each request, by its number."""
        return (mixed(number.astype(np.uint64) + np.uint64(self.seed << 40)) % np.uint64(self.groups)).astype(np.int64)

    def _stretch(self, index: int) -> tuple[np.ndarray, np.random.Generator]:
        first = index * self.file_rows
        count = min(self.file_rows, self.rows - first)
        return np.arange(first, first + count, dtype=np.int64), np.random.default_rng([self.seed, *self._link(), index])

    def _link(self) -> tuple[int, ...]:
        return (1,)

    def _table(
        self,
        number: np.ndarray,
        random: np.random.Generator,
        source: np.ndarray,
        source_port: np.ndarray,
        destination: np.ndarray,
        destination_port: np.ndarray,
    ) -> pa.Table:
        times = EPOCH_US + number * 1_000_000 // self.rate - random.integers(0, DELAY_US + 1, len(number))
        lengths = random.integers(40, 1501, len(number), dtype=np.int32)
        columns = [times, source, source_port, destination, destination_port, lengths]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)


@dataclass(frozen=True)
class Replies(Requests):
    """The packets of the second link, to requests of the same groups, rate and seed."""

    def packets(self, index: int) -> pa.Table:
        number, random = self._stretch(index)
        wait = np.exp(random.uniform(math.log(SOONEST_S), math.log(LATEST_S), len(number)))
        request = number - (wait * self.rate).astype(np.int64)
        chance = random.integers(0, self.groups, len(number))
        answers = (request >= 0) & (random.random(len(number)) < ANSWERS)
        conversation = np.where(answers, self.conversations(np.maximum(request, 0)), chance)
        client, client_port, server, server_port = quadruples(conversation)
        return self._table(number, random, server, server_port, client, client_port)

    def _link(self) -> tuple[int, ...]:
        return (2,)


def quadruples(conversation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Address and port of the client, address and port of the server: different for different conversations.

    No one of the four tells the conversation: a host has several ports, a server many clients.
    """
    spread = mixed(conversation.astype(np.uint64))
    return (
        address(conversation // _PORTS_PER_HOST),
        _FIRST_PORT + conversation % _PORTS,
        address(_FIRST_SERVER + (spread % np.uint64(_SERVERS)).astype(np.int64)),
        SERVICES[(spread >> np.uint64(32)) % np.uint64(len(SERVICES))],
    )


def mixed(number: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of a number changes every bit of the result."""
    bits = number + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
