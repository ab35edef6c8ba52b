"""The faults."""

from __future__ import annotations

import random
import signal
import time

from agents import Agents
from network import Link, run


class Faults:
    """Each public method is a kind of fault: it makes one, mends it and says what it was."""

    def __init__(self, agents: Agents, draw: random.Random) -> None:
        self._agents, self._net, self._draw = agents, agents.net, draw

    def _kinds(self) -> list[str]:
        return sorted(name for name in dir(self) if not name.startswith("_"))

    def _pause(self, least: float, most: float) -> None:
        time.sleep(self._draw.uniform(least, most))

    def _link(self, hop: int | None = None) -> Link:
        return self._draw.choice([link for link in self._net.links if hop in (None, link.hop)])

    def down(self) -> str:
        links = [self._link()]
        if self._draw.random() < 0.2:
            links = self._net.hop(links[0].hop)
        with self._net.fault("down", *links):
            for link in links:
                run(f"ip -n {self._net.ends(link)[0]} link set {link.near} down")
            self._pause(0.5, 12)
            for link in links:
                space = self._net.ends(link)[0]
                run(f"ip -n {space} link set {link.near} up")
                # An IPv6 address does not survive that.
                run(f"ip -n {space} address replace {link.address}/{link.prefix} dev {link.near}")
                self._net.route_by_default(link.family)
        return " ".join(link.near for link in links)

    def rate(self) -> str:
        link, rate = self._link(), round(10 ** self._draw.uniform(-0.3, 2), 2)
        with self._net.fault("rate", link):
            self._net.shape(link, rate)
            self._pause(1, 8)
            self._net.shape(link, link.rate)
        return f"{link.near} {rate} Mbit/s"

    def address(self) -> str:
        link = self._link()
        space = self._net.ends(link)[0]
        new = link.at(self._draw.randrange(3, 250))
        gap = self._draw.choice([0, self._draw.uniform(0.1, 5)])
        if new == link.address:
            return "none"
        with self._net.fault("address", link):
            run(f"ip -n {space} address del {link.address}/{link.prefix} dev {link.near}")
            time.sleep(gap)
            run(f"ip -n {space} address add {new}/{link.prefix} dev {link.near}")
            link.address = new
            self._net.route_by_default(link.family)
        return f"{link.near} {new} after {gap:.1f} s"

    def stop(self) -> str:
        agent = self._draw.choice(list(self._agents.running))
        for_hop = 1 if agent == "next" else 0
        with self._net.fault("stop", hop=for_hop):
            self._agents.running[agent].send_signal(signal.SIGSTOP)
            self._pause(0.5, 12)
            self._agents.running[agent].send_signal(signal.SIGCONT)
        return agent

    def kill(self) -> str:
        agent = self._draw.choice(list(self._agents.running))
        kind = self._draw.choice([signal.SIGKILL, signal.SIGTERM])
        # A client that ends in order opens the host again.
        if agent == "client" and (self._net.kill_switch or self._net.lan):
            kind = self._draw.choice([signal.SIGKILL, signal.SIGUSR2])
        with self._net.fault("kill", hop=0, deadly=True):
            process = self._agents.running[agent]
            process.send_signal(kind)
            process.wait(20)
            self._pause(0, 4)
            self._agents.start(agent)
            time.sleep(1)
        return f"{agent} {kind.name}"

    def disable(self) -> str:
        with self._net.fault("disable", hop=0, deadly=True):
            said = self._agents.tabane("server", "server disable home -c server.toml", check=True)
            self._pause(0.5, 5)
            self._agents.tabane("server", "server enable home -c server.toml", check=True)
            time.sleep(1)
        return said

    def role(self) -> str:
        link = self._link(0)
        role = self._draw.choice(["primary", "secondary", "backup", "never"])
        with self._net.fault("role", link):
            agent, name = self._draw.choice(
                [("client", link.near), ("server", f"home/{link.index + 1}")]
            )
            said = self._agents.tabane(agent, f"path set {name} --role {role}")
            self._pause(0.5, 6)
            said += self._agents.tabane("client", f"path set {link.near} --role primary")
        return f"{role} at {agent}: {said}"

    def cap(self) -> str:
        link = self._link(0)
        cap = self._draw.choice(["8kbps", "100kbps", "2Mbps", "20Mbps"])
        with self._net.fault("cap", link):
            said = self._agents.tabane("client", f"path set {link.near} --cap {cap}")
            self._pause(0.5, 5)
            said += self._agents.tabane("client", f"path set {link.near} --cap none")
        return f"{cap}: {said}"

    def configuration(self) -> str:
        link = self._link(0)
        changes = {
            "without": "",
            "quota": 'quota = "2MB"',
            "mtu": "mtu = 1300",
            "probe": 'probe = "20ms"',
            "subflows": "subflows = 2",
        }
        kind = self._draw.choice(sorted(changes))
        with self._net.fault("configuration", link):
            if kind == "without":
                self._agents.configure(without=link.index)
            else:
                self._agents.configure({link.index: changes[kind]})
            said = self._agents.reload()
            self._pause(0.5, 6)
            self._agents.configure()
            said += self._agents.reload()
            self._agents.reload("server")
        return f"{kind} of {link.near}: {said}"

    def _filter(self, link: Link, chain: str, rule: str) -> None:
        space = self._net.ends(link)[1]
        run(f"ip netns exec {space} nft 'add rule inet faults {chain} {rule}'")

    def _unfilter(self, link: Link) -> None:
        space = self._net.ends(link)[1]
        run(f"ip netns exec {space} nft 'flush chain inet faults in; flush chain inet faults out'")

    def hole(self) -> str:
        """One direction of a link vanishes; all else looks well."""
        link, direction = self._link(), self._draw.choice(["in", "out"])
        device = f"{'iifname' if direction == 'in' else 'oifname'} {link.far}"
        with self._net.fault("hole", link):
            self._filter(link, direction, f"{device} meta l4proto udp drop")
            self._pause(0.5, 12)
            self._unfilter(link)
        return f"{link.near} {direction}"

    def loss(self) -> str:
        link, percent = self._link(), self._draw.choice([5, 20, 50, 90])
        with self._net.fault("loss", link):
            for chain, device in (("in", "iifname"), ("out", "oifname")):
                lost = f"numgen random mod 100 < {percent} drop"
                self._filter(link, chain, f"{device} {link.far} {lost}")
            self._pause(1, 10)
            self._unfilter(link)
        return f"{link.near} {percent} %"

    def mtu(self) -> str:
        link = self._link()
        mtu, both = self._draw.choice([1280, 1340, 1400, 1450]), self._draw.random() < 0.5
        near, far = self._net.ends(link)
        with self._net.fault("mtu", link):
            run(f"ip -n {near} link set {link.near} mtu {mtu}")
            if both:
                run(f"ip -n {far} link set {link.far} mtu {mtu}")
            self._pause(1, 8)
            run(f"ip -n {near} link set {link.near} mtu 1500")
            run(f"ip -n {far} link set {link.far} mtu 1500")
        return f"{link.near} {mtu}{' at both ends' if both else ''}"
