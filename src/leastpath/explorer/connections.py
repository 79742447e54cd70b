"""Connections: how many there may be, and how long one may take to say what it wants."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from leastpath.explorer.arrays import as_json
from leastpath.explorer.safety import HEADERS

MOST_CONNECTIONS = 128  # at once
HEADER_SECONDS = 10.0  # that the header of a request may take to arrive


class LimitedProtocol(H11Protocol):
    """uvicorn's protocol with an end to waiting. What it answers itself has the page's headers, too."""

    timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        cycle: Any = self.cycle  # None at first, whatever its type says
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Of too many connections, those end that have waited longest."""
        others: list[Any] = sorted(self.connections, key=lambda other: (not other.waits, other.since))
        for other in others[: max(0, len(others) + 1 - MOST_CONNECTIONS)]:
            self.connections.discard(other)
            other.transport.abort()
        self.since = self.loop.time()
        super().connection_made(transport)
        self.watch()

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left, or was left."""
        super().connection_lost(exc)
        self.unwatch()

    def watch(self) -> None:
        """What has begun must become a request in time, however slowly it comes."""
        if not self.waits:
            self.unwatch()
        elif self.timer is None:
            self.timer = self.loop.call_later(HEADER_SECONDS, self.give_up)

    def unwatch(self) -> None:
        """It has become one, or is gone."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None

    def give_up(self) -> None:
        """It took too long."""
        self.timer = None
        if self.waits:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What is no request gets a sentence."""
        own = {"content-type": "application/json", "connection": "close", **HEADERS}
        answer = as_json({"error": msg}).encode()
        response = h11.Response(status_code=400, headers=list(own.items()), reason=b"Bad Request")
        try:
            for event in (response, h11.Data(data=answer), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # in the middle of an answer
            self.transport.abort()
        self.transport.close()
