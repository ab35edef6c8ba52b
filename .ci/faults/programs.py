"""Programs that use the bond and check what it brings."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable

from content import (
    TCP_PORT,
    UDP_PORT,
    WrongBytes,
    check_content,
    receive_exactly,
    send_content,
)
from network import DESTINATIONS, Network

# So long a program may wait while links are in order, seconds.
PATIENCE = 5.0
PROGRAMS = 8


class Waits:
    """The longest wait of a transfer: two ends of times at which nothing came or went."""

    def __init__(self, now: float) -> None:
        self.last = now
        self.longest = (now, now)

    def end(self) -> None:
        """Something came or went."""
        now = time.monotonic()
        if now - self.last > self.longest[1] - self.longest[0]:
            self.longest = (self.last, now)
        self.last = now


class Programs:
    """Threads that each do one transfer after another, from the client's host or one behind it."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.over = threading.Event()
        self.wrong: list[str] = []
        self.done: dict[str, list[float]] = {}
        self.threads = [
            threading.Thread(target=self.work, args=(number,), daemon=True)
            for number in range(PROGRAMS)
        ]
        for thread in self.threads:
            thread.start()

    def enter(self, host: str) -> None:
        """Moves this thread into the namespace of a host."""
        with open(f"/var/run/netns/{self.net.spaces[host]}") as space:
            if ctypes.CDLL(None).setns(space.fileno(), 0x4000_0000) != 0:
                raise OSError("setns")

    def work(self, number: int) -> None:
        draw = random.Random(self.net.seed * 1000 + number)
        host = "host" if self.net.lan and number % 3 == 0 else "client"
        self.enter(host)
        while not self.over.is_set():
            mode = draw.choice(["down", "down", "up", "both", "echo", "pauses", "udp", "udp"])
            side = draw.choice(["tun", "socks"]) if host == "client" else "lan"
            family = draw.choice([4, 6])
            begun = time.monotonic()
            what = f"{mode} by {side}, IPv{family}"
            waits = Waits(begun)
            seen = waits.end

            try:
                if mode == "udp":
                    self.exchange(draw, DESTINATIONS[family], seen)
                else:
                    self.transfer(draw, mode, side, DESTINATIONS[family], seen)
            except WrongBytes as fault:
                self.tell(f"WRONG BYTES: {what}: {fault}")
            except OSError as fault:
                if not self.net.may_fail(begun, time.monotonic()):
                    self.tell(f"failed: {what} after {time.monotonic() - begun:.1f} s: {fault}")
                time.sleep(0.5)
            start, end = waits.longest
            in_order = self.net.longest_in_order(start, end) if end - start > PATIENCE else 0
            if in_order > PATIENCE and not self.net.may_fail(start, end):
                self.tell(
                    f"waited: {what} for {end - start:.1f} s, {in_order:.1f} of them with links"
                    " in order"
                )
            self.done.setdefault(mode, []).append(end - start)

    def tell(self, what: str) -> None:
        self.wrong.append(what)
        self.net.log("!!", what)

    def connect(self, side: str, address: str) -> socket.socket:
        if side != "socks":
            return socket.create_connection((address, TCP_PORT), 60)
        stream = socket.create_connection(("127.0.0.1", 1080), 60)
        stream.sendall(b"\5\1\0")
        receive_exactly(stream, 2)
        family, kind = (socket.AF_INET6, 4) if ":" in address else (socket.AF_INET, 1)
        packed = socket.inet_pton(family, address)
        stream.sendall(b"\5\1\0" + bytes([kind]) + packed + struct.pack(">H", TCP_PORT))
        status, kind = receive_exactly(stream, 4)[1::2]
        receive_exactly(stream, 6 if kind == 1 else 18)
        if status != 0:
            raise OSError(f"SOCKS status {status}")
        return stream

    def transfer(
        self, draw: random.Random, mode: str, side: str, address: str, seen: Callable[[], None]
    ) -> None:
        seed, length = draw.randrange(1 << 20), int(10 ** draw.uniform(3, 7))
        with self.connect(side, address) as stream:
            seen()
            if mode in ("echo", "pauses"):
                stream.sendall(b"echo 0 0\n")
                for number in range(draw.randrange(3, 15)):
                    time.sleep(draw.uniform(0, 0.3 if mode == "echo" else 3))
                    seen()
                    message = b"%08d" % number * 5
                    stream.sendall(message)
                    if receive_exactly(stream, len(message)) != message:
                        raise WrongBytes("an echo")
                    seen()
                return
            stream.sendall(f"{mode} {seed} {length}\n".encode())
            faults: list[Exception] = []

            def send() -> None:
                try:
                    send_content(stream, seed, length)
                except OSError as fault:
                    faults.append(fault)

            sender = threading.Thread(target=send)
            if mode in ("up", "both"):
                sender.start()
            if mode in ("down", "both"):
                check_content(stream, seed, length, seen)
            while mode == "up" and (said := receive_exactly(stream, 1)) != b"K":
                if said != b".":
                    raise WrongBytes(f"{said!r} from the far end")
                seen()
            if mode in ("up", "both"):
                sender.join()
            if faults:
                raise faults[0]

    def exchange(self, draw: random.Random, address: str, seen: Callable[[], None]) -> None:
        """Datagrams that are sent back, at up to a megabit a second."""
        size = draw.choice([60, 200, 1200, 3000])
        gap = max(draw.choice([0.005, 0.02, 0.1]), size / 120_000)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        mark = os.urandom(8)
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            now = time.monotonic()
            end, due = now + draw.uniform(3, 25), now
            while (now := time.monotonic()) < end:
                if now >= due:
                    with contextlib.suppress(OSError):
                        datagrams.sendto(mark.ljust(size, b"u"), (address, UDP_PORT))
                    due = max(due + gap, now - 0.1)
                datagrams.settimeout(max(0.001, min(0.02, due - now)))
                with contextlib.suppress(OSError):
                    data = datagrams.recv(65535)
                    if data != mark.ljust(size, b"u"):
                        raise WrongBytes(f"a datagram of {len(data)} bytes")
                    seen()
            seen()

    def new_connections(self) -> None:
        """Once all is in order: each side, 3 s at most."""

        def ask(side: str, host: str) -> None:
            self.enter(host)
            begun = time.monotonic()
            try:
                for address in DESTINATIONS.values():
                    with self.connect(side, address) as stream:
                        stream.sendall(b"down 5 1000\n")
                        check_content(stream, 5, 1000, lambda: None)
            except (OSError, WrongBytes) as fault:
                self.tell(f"a new connection by {side} afterwards: {fault}")
            if time.monotonic() - begun > 3:
                self.tell(f"new connections by {side}: {time.monotonic() - begun:.1f} s")

        sides = [("tun", "client"), ("socks", "client")] + [("lan", "host")] * self.net.lan
        for side in sides:
            thread = threading.Thread(target=ask, args=side, daemon=True)
            thread.start()
            thread.join(30)

    def end(self) -> None:
        self.over.set()
        end = time.monotonic() + 120
        for thread in self.threads:
            thread.join(max(0.1, end - time.monotonic()))
        left = sum(thread.is_alive() for thread in self.threads)
        if left:
            self.tell(f"{left} programs have not ended after 120 s")
