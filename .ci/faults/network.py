"""Hosts as namespaces, links between them, and which of them are out of order since when."""

from __future__ import annotations

import contextlib
import pathlib
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# A link counts as in order so many seconds after its last fault.
HEALING = 5.0
# A connection that could not be carried for so many seconds may fail.
GIVING_UP = 15.0
PORT = 51820
DESTINATIONS = {4: "10.99.0.2", 6: "fd99::2"}


@dataclass
class Link:
    """One link of a hop: 0 from the client to the server, 1 from the server to the next."""

    hop: int
    index: int
    family: int
    rate: float
    address: str = ""

    def __post_init__(self) -> None:
        self.address = self.at(1)

    def at(self, host: int) -> str:
        if self.family == 4:
            return f"10.{91 + self.hop}.{self.index}.{host}"
        return f"fd91:{self.hop}:{self.index}::{host:x}"

    @property
    def near(self) -> str:
        return f"n{self.hop}{self.index}"

    @property
    def far(self) -> str:
        return f"f{self.hop}{self.index}"

    @property
    def prefix(self) -> int:
        return 24 if self.family == 4 else 64

    @property
    def remote(self) -> str:
        host = self.at(2)
        return f"{host}:{PORT}" if self.family == 4 else f"[{host}]:{PORT}"


def run(
    command: str,
    check: bool = True,
    env: dict[str, str] | None = None,
    cwd: pathlib.Path | None = None,
) -> str:
    """Runs a line of shell; what it printed. Raises if it fails and that is to be checked."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=env, cwd=cwd)
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


@dataclass
class Span:
    """Something that was out of order from `start` to `end`: a link, or all of its hop."""

    what: str
    hop: int
    link: int | None
    start: float
    end: float = float("inf")
    # Whether connections that were open then may fail.
    deadly: bool = False


@dataclass
class Network:
    seed: int
    folder: pathlib.Path
    log: Callable[..., None]
    draw: random.Random
    links: list[Link] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = self.draw
        self.chain = draw.random() < 0.35
        self.lan = draw.random() < 0.4
        self.kill_switch = draw.random() < 0.4
        for hop in range(1 + self.chain):
            for index in range(draw.choice([2, 2, 3])):
                rate = round(10 ** draw.uniform(0.9, 1.7), 1)
                self.links.append(Link(hop, index, draw.choice([4, 4, 6]), rate))
        hosts = ["client", "server"] + ["next"] * self.chain + ["host"] * self.lan
        self.spaces = {host: f"tabane-{host}-{self.seed}" for host in hosts}

    def describe(self) -> str:
        links = [f"hop {k.hop}: {k.rate} Mbit/s IPv{k.family}" for k in self.links]
        kinds = [name for name in ("chain", "lan", "kill_switch") if getattr(self, name)]
        return ", ".join(links + kinds)

    def hop(self, hop: int) -> list[Link]:
        return [link for link in self.links if link.hop == hop]

    def ends(self, link: Link) -> tuple[str, str]:
        """The namespaces of a link's near and far end."""
        names = [self.spaces[host] for host in ("client", "server", "next") if host in self.spaces]
        return names[link.hop], names[link.hop + 1]

    def inside(self, host: str, command: str, check: bool = True) -> str:
        return run(f"ip netns exec {self.spaces[host]} {command}", check)

    def shape(self, link: Link, rate: float) -> None:
        for space, device in zip(self.ends(link), (link.near, link.far), strict=True):
            run(
                f"tc -n {space} qdisc replace dev {device} root tbf rate {rate}mbit"
                " burst 20kb latency 60ms"
            )

    def make(self) -> None:
        for space in self.spaces.values():
            run(f"ip netns del {space}", check=False)
            run(f"ip netns add {space}; ip -n {space} link set lo up")
        for link in self.links:
            near, far = self.ends(link)
            run(f"ip -n {near} link add {link.near} type veth peer name {link.far} netns {far}")
            ends = ((near, link.near, link.at(1)), (far, link.far, link.at(2)))
            for space, device, address in ends:
                run(f"ip netns exec {space} sysctl -qw net.ipv6.conf.{device}.accept_dad=0")
                run(f"ip -n {space} address add {address}/{link.prefix} dev {device}")
                run(f"ip -n {space} link set {device} up")
            self.shape(link, link.rate)
            run(
                f"ip netns exec {far} nft 'add table inet faults;"
                " add chain inet faults in { type filter hook input priority 0; };"
                " add chain inet faults out { type filter hook output priority 0; };"
                " add chain inet faults leaks { type filter hook prerouting priority 0; }'"
            )
        last = self.spaces["next" if self.chain else "server"]
        for address in DESTINATIONS.values():
            run(f"ip -n {last} address add {address} dev lo")
        for link in self.hop(0):
            self.inside(
                "server",
                f"nft 'add rule inet faults leaks iifname {link.far} ip daddr {DESTINATIONS[4]}"
                f" counter; add rule inet faults leaks iifname {link.far}"
                f" ip6 daddr {DESTINATIONS[6]} counter'",
            )
        for family in (4, 6):
            self.route_by_default(family)
        if self.kill_switch:
            # Where answers come from is where unmarked packets would go.
            self.inside("client", "sysctl -qw net.ipv4.conf.all.rp_filter=1")
        if self.lan:
            client, host = self.spaces["client"], self.spaces["host"]
            run(f"ip -n {client} link add lan type veth peer name lan netns {host}")
            for space, number in ((client, 1), (host, 20)):
                run(f"ip netns exec {space} sysctl -qw net.ipv6.conf.lan.accept_dad=0")
                run(f"ip -n {space} address add 192.168.7.{number}/24 dev lan")
                run(f"ip -n {space} address add fd07:7::{number}/64 dev lan")
                run(f"ip -n {space} link set lan up")
            run(f"ip -n {host} route add default via 192.168.7.1")
            run(f"ip -n {host} route add default via fd07:7::1")

    def route_by_default(self, family: int) -> None:
        """Gives what would leave in the clear a way to go."""
        if not (self.kill_switch or self.lan):
            return
        for link in self.hop(0):
            if link.family == family:
                space = self.spaces["client"]
                run(f"ip -n {space} route replace default via {link.at(2)}", check=False)
                return

    def leaks(self) -> int:
        rules = self.inside("server", "nft list chain inet faults leaks")
        return sum(int(count) for count in re.findall(r"counter packets (\d+)", rules))

    def state(self) -> set[str]:
        """Devices, rules and routes of the client's host that are not its links'."""
        ask = "ip rule; ip -6 rule; nft list ruleset; ip -br link | cut -d' ' -f1"
        ask += "; ip route show table 29794 2>&1; ip -6 route show table 29794 2>&1"
        lines = self.inside("client", f'sh -c "{ask}"', check=False).splitlines()
        # An empty table is as good as none.
        return {line for line in lines if "FIB table" not in line and "terminated" not in line}

    def remove(self) -> None:
        for space in self.spaces.values():
            run(f"ip netns del {space}", check=False)

    @contextlib.contextmanager
    def fault(
        self, what: str, *links: Link, hop: int | None = None, deadly: bool = False
    ) -> Iterator[None]:
        """Something is out of order while this lasts: these links, or all of a hop."""
        now = time.monotonic()
        if hop is not None:
            spans = [Span(what, hop, None, now, deadly=deadly)]
        else:
            spans = [Span(what, link.hop, link.index, now) for link in links]
        self.spans += spans
        yield
        for span in spans:
            span.end = time.monotonic()

    def longest_in_order(self, start: float, end: float) -> float:
        """The longest time between `start` and `end` that some link of each hop was in order."""
        longest, since = 0.0, start
        now = start
        while now < end:
            if all(self.hop_in_order(hop, now) for hop in range(1 + self.chain)):
                longest = max(longest, now - since)
            else:
                since = now
            now += 0.1
        return longest

    def hop_in_order(self, hop: int, now: float) -> bool:
        bad = [s for s in self.spans if s.hop == hop and s.start <= now < s.end + HEALING]
        if any(span.link is None for span in bad):
            return False
        return len({span.link for span in bad}) < len(self.hop(hop))

    def may_fail(self, start: float, end: float) -> bool:
        """Whether a connection between `start` and `end` had a reason to fail."""
        if any(s.deadly and s.start < end and start < s.end + HEALING for s in self.spans):
            return True
        now = since = start
        while now < end:
            if all(self.hop_in_order(hop, now) for hop in range(1 + self.chain)):
                since = now
            if now - since > GIVING_UP:
                return True
            now += 0.1
        return False
