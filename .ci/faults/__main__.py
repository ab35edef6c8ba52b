"""Fault injection: client, server and sometimes an upstream hop in namespaces of their own,
programs that check every byte, and links and agents that fail at random. Needs root, ip, tc, nft.

    python3 .ci/faults target/release/tabane --seeds 1-4            two minutes each
    python3 .ci/faults target/release/tabane --seeds 7 --seconds 60 --faults down,mtu

A seed draws the network (two or three links, IPv4 or IPv6, an upstream hop, hosts behind the
client, the kill switch) and the faults; times on real sockets differ from run to run. It fails if

- a byte is wrong, or an agent dies, panics or does not end;
- a connection fails, or a program waits, though some link of each hop had been in order for
  PATIENCE seconds (a link counts as in order from HEALING seconds after its last fault on);
- afterwards a new connection takes over 3 s, connections stay open, an agent uses processor time,
  or the host's rules and routes are not as before;
- with the kill switch, and for hosts behind the client, a packet leaves in the clear.

What happened is in log.txt of the folder that is printed, beside what the agents wrote.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from agents import Agents
from content import destination
from kinds import Faults
from network import HEALING, Network
from programs import Programs


def campaign(binary: str, seed: int, seconds: float, only: set[str]) -> list[str]:
    """One seed; what was wrong."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tabane-faults-{seed}-"))
    begun = time.monotonic()
    file = (folder / "log.txt").open("w")

    def log(*what: object) -> None:
        print(f"{time.monotonic() - begun:8.2f}", *what, file=file, flush=True)

    draw = random.Random(seed)
    net = Network(seed, folder, log, draw)
    agents = Agents(binary, net)
    print(f"seed {seed}: {net.describe()}; {folder}", flush=True)
    net.make()
    last = net.spaces["next" if net.chain else "server"]
    far = subprocess.Popen(["ip", "netns", "exec", last, sys.executable, __file__, "--destination"])
    untouched = net.state()
    try:
        agents.set_up()
        programs = Programs(net)
        faults = Faults(agents, draw)
        kinds = [kind for kind in faults._kinds() if not only or kind in only]
        while time.monotonic() - begun < seconds:
            faults._pause(0.2, 5)
            kind = draw.choice(kinds)
            log(kind, "...")
            log(kind, getattr(faults, kind)())
            for agent, process in agents.running.items():
                if process.poll() is not None:
                    programs.tell(f"{agent} died: {process.returncode}")
                    agents.start(agent)
        log("no more faults")
        time.sleep(HEALING + 2)
        programs.new_connections()
        programs.end()
        time.sleep(8)
        before = agents.processor_time()
        time.sleep(5)
        for agent, spent in agents.processor_time().items():
            log(f"{agent}, idle: {spent - before[agent]:.2f} s of processor time in 5 s")
            if spent - before[agent] > 0.5:
                programs.tell(f"{agent} takes {spent - before[agent]:.2f} s of 5 s when idle")
        for agent in agents.running:
            status = agents.tabane(agent, "status")
            log(agent, status)
            if not re.search(r"(?m)^connections 0 ", status):
                log(agent, agents.tabane(agent, "conn list"))
                programs.tell(f"{agent} still has connections")
        programs.wrong += agents.end_all()
        if differs := net.state() ^ untouched:
            programs.tell(f"the client's host is not as before: {differs}")
        if (net.kill_switch or net.lan) and net.leaks():
            programs.wrong.append(f"{net.leaks()} packets left in the clear")
        for mode, waits in sorted(programs.done.items()):
            print(f"    {mode}: {len(waits)}, longest wait {max(waits):.1f} s")
        return programs.wrong
    finally:
        for process in agents.running.values():
            process.kill()
        far.kill()
        net.remove()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--seeds", default="1-4")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--faults", default="")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    first, _, end = options.seeds.partition("-")
    failed = False
    for seed in range(int(first), int(end or first) + 1):
        only = set(options.faults.split(",")) - {""}
        wrong = campaign(os.path.realpath(options.binary), seed, options.seconds, only)
        for what in wrong:
            print(f"    WRONG: {what}")
        failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    if sys.argv[1:] == ["--destination"]:
        destination()
    sys.exit(main())
