"""Sends one prepared request over a socket of its own and records when which bytes came back.

While a load runs nothing is parsed, decoded or collected: whatever the client does between two reads makes the next
read late. One system call (a microsecond) asks at each read how long the thread has waited for a processor so far.
Must not know what the bytes mean; streams.py and starvation.py take them apart afterwards.
"""

import asyncio
import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from runners.engines.records import Exchange

clock_ns = time.perf_counter_ns
ACCOUNT_BYTES = 96  # three numbers
TIMED_OUT, TOO_LONG = "not answered within", "given up after more than"

Address = tuple[socket.AddressFamily, Any]


@dataclass(kw_only=True)
class Recorder:
    """An asyncio protocol (by its methods; no base class is needed) that keeps reads and tells of the end.

    More than `limit_bytes` are not kept: the connection is cut off then.
    """

    closed: "asyncio.Future[None]"
    limit_bytes: int
    account_fd: int | None
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    accounts: list[bytes] = field(default_factory=list)
    num_bytes: int = 0
    ended_ns: int = 0
    error: str = ""
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # of a socket

    def data_received(self, data: bytes) -> None:
        self.reads.append((clock_ns(), data))
        if self.account_fd is not None:
            self.accounts.append(os.pread(self.account_fd, ACCOUNT_BYTES, 0))
        self.num_bytes += len(data)
        if self.num_bytes > self.limit_bytes and self.transport is not None:
            self.error = f"{TOO_LONG} {self.limit_bytes} bytes"
            self.transport.abort()

    def eof_received(self) -> None:
        self.ended_ns = clock_ns()

    def connection_lost(self, error: Exception | None) -> None:
        self.ended_ns = self.ended_ns or clock_ns()
        self.error = self.error or ("" if error is None else _name(error))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass


def resolve(host: str, port: int) -> Address:
    """The address of a server, IPv4 first, looked up once: a look-up needs a thread. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    return (family, address)


async def send(
    address: Address,
    request: bytes,
    *,
    timeout_s: float,
    scheduled_ns: int,
    limit_bytes: int,
    account_fd: int | None = None,
) -> Exchange:
    """Open a connection, send `request`, record until the server closes it. Never raises for what a server does.

    The request must ask for `Connection: close`: the closed connection is the only end that needs no parsing.
    An answer of more than `limit_bytes` is given up. `account_fd` is an open file that is read anew at each read.
    """
    recorder = Recorder(
        closed=asyncio.get_running_loop().create_future(), account_fd=account_fd, limit_bytes=limit_bytes
    )
    sent_ns, error = 0, ""
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(timeout_s):
            transport = await _connect(address, recorder)
            sent_ns = clock_ns()
            transport.write(request)
            await recorder.closed
    except TimeoutError:
        error = f"{TIMED_OUT} {timeout_s:g} s"
    except OSError as failure:
        error = _name(failure)
    finally:
        if transport is not None:
            transport.abort()
    return Exchange(
        scheduled_ns=scheduled_ns,
        sent_ns=sent_ns,
        ended_ns=recorder.ended_ns or clock_ns(),
        reads=tuple(recorder.reads),
        accounts=tuple(recorder.accounts),
        error=error or recorder.error,
    )


async def _connect(address: Address, recorder: Recorder) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    family, place = address
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(plain, place)
    except BaseException:
        plain.close()
        raise
    transport, _ = await loop.create_connection(lambda: recorder, sock=plain)  # type: ignore[type-var]  # known by its methods
    return transport


def _name(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
