"""What transfers carry, sent and checked, and the destination that programs speak to."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable

TCP_PORT, UDP_PORT = 9000, 9001
CONTENT = random.Random(1).randbytes(1_000_003) * 2


class WrongBytes(Exception):
    """A program received what nobody sent."""


def content(seed: int, offset: int, length: int) -> bytes:
    """What a transfer of this seed carries at `offset`; at most a million bytes."""
    start = (seed * 7919 + offset) % 1_000_003
    return CONTENT[start : start + length]


def receive_exactly(stream: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = stream.recv(length - len(data))
        if not more:
            raise OSError(f"ended after {len(data)} of {length} bytes")
        data += more
    return data


def send_content(stream: socket.socket, seed: int, length: int) -> None:
    sent = 0
    while sent < length:
        piece = content(seed, sent, min(65536, length - sent))
        stream.sendall(piece)
        sent += len(piece)


def check_content(stream: socket.socket, seed: int, length: int, seen: Callable[[], None]) -> None:
    got = 0
    while got < length:
        data = stream.recv(min(65536, length - got))
        seen()
        if not data:
            raise OSError(f"ended after {got} of {length} bytes")
        if data != content(seed, got, len(data)):
            raise WrongBytes(f"at byte {got} of {length}")
        got += len(data)


def serve(stream: socket.socket) -> None:
    with contextlib.suppress(OSError, WrongBytes), stream:
        request = b""
        while not request.endswith(b"\n"):
            request += receive_exactly(stream, 1)
        mode, seed, length = request.split()
        if mode == b"echo":
            while data := stream.recv(4096):
                stream.sendall(data)
        arguments = (stream, int(seed), int(length))
        sender = threading.Thread(target=send_content, args=arguments)
        if mode in (b"down", b"both"):
            sender.start()
        if mode == b"both":
            check_content(*arguments, lambda: None)
        if mode == b"up":
            # Says when something comes: what the client's host has taken is not there yet.
            check_content(*arguments, lambda: stream.sendall(b"."))
            stream.sendall(b"K")
        if mode in (b"down", b"both"):
            sender.join()


def destination() -> None:
    def datagrams() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as echo:
            echo.bind(("::", UDP_PORT))
            # Answers leave from the address that was asked, not from a link's.
            echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            while True:
                data, control, _, sender = echo.recvmsg(65535, 256)
                with contextlib.suppress(OSError):
                    echo.sendmsg([data], control, 0, sender)

    threading.Thread(target=datagrams, daemon=True).start()
    listener = socket.create_server(
        ("::", TCP_PORT), family=socket.AF_INET6, backlog=500, dualstack_ipv6=True
    )
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()
