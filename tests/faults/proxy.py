"""A network that can be cut, slowed and muted: TCP links on the loopback, each in front of one listener."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

Target = int | Path
"""A port of the loopback, or a Unix socket."""

_CHUNK_BYTES = 64 * 1024


class Network:
    """The thread on which all links carry their bytes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def link(self, name: str) -> Link:
        """A new link that listens and leads nowhere yet."""
        link = Link(name, self)
        self.do(link.listen())
        self._links.append(link)
        return link

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` on the network's thread and waits for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    def close(self) -> None:
        """Ends all links."""
        for link in self._links:
            self.do(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


class Link:
    """One way through the network: what connects to ``port`` is connected to the target.

    Attributes:
        name: For people.
        port: Where it listens; the same for its whole life.
    """

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.port = 0
        self._network = network
        self._target: Target | None = None
        self._delay_seconds = 0.0
        self._is_cut = False
        self._muted: tuple[bool, ...] = ()
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def lead_to(self, target: Target) -> None:
        """Connects newcomers to ``target`` from now on."""
        self._target = target

    def cut(self) -> None:
        """Breaks all connections and refuses new ones, until it is healed."""
        self._is_cut = True
        self._network.do(self._break_all())

    def slow(self, seconds: float) -> None:
        """Holds every piece of data up, until it is healed."""
        self._delay_seconds = seconds

    def mute(self, *, replies: bool) -> None:
        """Lets nothing through any more in one direction of the connections that there are; healing breaks these connections."""
        self._muted = (replies,)

    def heal(self) -> None:
        """As new. What was held in a muted direction is lost with its connection."""
        self._delay_seconds, self._is_cut = 0.0, False
        if self._muted:
            self._network.do(self._break_all())
        self._muted = ()

    async def listen(self) -> None:
        """Binds the port."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Ends the link."""
        assert self._server is not None
        self._server.close()
        await self._break_all()

    async def _break_all(self) -> None:
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        writers = [writer]
        try:
            if self._is_cut or self._target is None:
                return
            far_reader, far_writer = await _connect(self._target)
            writers.append(far_writer)
            ways = (self._pump(reader, far_writer, False), self._pump(far_reader, writer, True))
            pumps = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # nobody listens there, or the link was cut
        finally:
            self._open.discard(task)
            for item in writers:
                item.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                if replies in self._muted:
                    await asyncio.Event().wait()  # until the connection is broken
                writer.write(data)
                await writer.drain()


async def _connect(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(target, Path):
        return await asyncio.open_unix_connection(target)
    return await asyncio.open_connection("127.0.0.1", target)
