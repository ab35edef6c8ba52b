"""Client, server and upstream hop: their configuration, start and end."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import time
from dataclasses import dataclass, field

from network import Network, run


@dataclass
class Agents:
    binary: str
    net: Network
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)

    def environment(self, agent: str) -> dict[str, str]:
        folder = self.net.folder / agent
        folder.mkdir(exist_ok=True)
        names = ("RUNTIME", "CONFIG")
        more = {f"TABANE_{name}_DIR": str(folder) for name in names}
        return {**os.environ, **more, "STATE_DIRECTORY": str(folder), "RUST_BACKTRACE": "1"}

    def tabane(self, agent: str, arguments: str, check: bool = False) -> str:
        command = f"ip netns exec {self.net.spaces[agent]} {self.binary} {arguments}"
        folder = self.net.folder / agent
        return run(command, check, self.environment(agent), folder).strip()

    def start(self, agent: str) -> None:
        verb = "client" if agent == "client" else "server"
        command = ["ip", "netns", "exec", self.net.spaces[agent], self.binary, verb, "-c"]
        output = (self.net.folder / f"{agent}.out").open("a")
        self.running[agent] = subprocess.Popen(
            [*command, f"{verb}.toml"],
            cwd=self.net.folder / agent,
            env=self.environment(agent),
            stdout=output,
            stderr=output,
            text=True,
        )

    def set_up(self) -> None:
        """Configures and starts all: servers first, each invites the one before it."""
        net = self.net
        servers = ["next", "server"] if net.chain else ["server"]
        for server in servers:
            hop = 1 if server == "next" else 0
            near = "server" if hop == 1 else "client"
            links = net.hop(hop)
            init = f"server init --public {links[0].remote} -c server.toml"
            self.environment(server)
            self.tabane(server, init, check=True)
            file = net.folder / server / "server.toml"
            text = file.read_text().replace(
                "[access]\n", "[access]\nprivate = true\nloopback = true\n"
            )
            if server == "server" and net.chain:
                text += self.next_hop
            file.write_text(text)
            invited = self.tabane(server, "server invite home -c server.toml", check=True)
            line = next(word for word in invited.split() if len(word) > 60)
            self.start(server)
            time.sleep(0.7)
            self.environment(near)
            names = " ".join(f"--path {link.near}" for link in links)
            joined = self.tabane(near, f"client join {names} --out joined.toml {line}")
            file = net.folder / near / "joined.toml"
            if not file.exists():
                raise RuntimeError(f"client join: {joined}")
            self.keep_paths(hop, file.read_text())
        self.configure()
        self.start("client")
        time.sleep(1.5)

    next_hop = ""

    def keep_paths(self, hop: int, text: str) -> None:
        """Takes what `client join` wrote, without its paths, which are written here."""
        base = re.sub(r"(?ms)^\[\[path\]\].*?(?=^\[(?!\[path)|\Z)", "", text)
        if hop == 0:
            self.bases["client"] = base
            return
        base = base.split("[front]")[0].replace("[[server]]", "[[next.server]]")
        paths = self.written_paths(1, {}, None).replace("[[path]]", "[[next.path]]")
        self.next_hop = f"\n[next]\n{base}\n{paths}"

    def written_paths(self, hop: int, more: dict[int, str], without: int | None) -> str:
        return "".join(
            f'[[path]]\nremote = "{link.remote}"\ninterface = "{link.near}"\n'
            f"{more.get(link.index, '')}\n"
            for link in self.net.hop(hop)
            if link.index != without
        )

    def configure(self, more: dict[int, str] | None = None, without: int | None = None) -> None:
        """Writes the client's file; `more` is for paths of the first hop."""
        net = self.net
        text = self.bases["client"] + self.written_paths(0, more or {}, without)
        text += '[tun]\nname = "tun"\nroutes = ["10.99.0.0/24", "fd99::/64"]\n'
        if net.kill_switch:
            text += "kill_switch = true\nlocal_networks = []\n"
        if net.lan:
            text += '[lan]\ninterfaces = ["lan"]\n'
        (net.folder / "client" / "client.toml").write_text(text)

    def reload(self, agent: str = "client") -> str:
        return self.tabane(agent, "reload")

    def end_all(self) -> list[str]:
        wrong = []
        for agent, process in reversed(self.running.items()):
            process.terminate()
            try:
                code = process.wait(15)
                if code != 0:
                    wrong.append(f"{agent} ended with {code}")
            except subprocess.TimeoutExpired:
                process.kill()
                wrong.append(f"{agent} did not end")
        for agent in self.running:
            said = (self.net.folder / f"{agent}.out").read_text()
            wrong += [f"{agent}: {line}" for line in said.splitlines() if "panicked" in line]
        return wrong

    def processor_time(self) -> dict[str, float]:
        """Seconds of each agent so far."""
        spent = {}
        for agent, process in self.running.items():
            stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[agent] = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        return spent
