"""Counts the instructions of shortened reference transfers and compares them with a baseline.

    python3 .ci/check_instructions.py BINARY            fails if a packet-hop costs 5 % more
    python3 .ci/check_instructions.py BINARY --update   writes the baseline anew

Instructions, unlike seconds, do not depend on what else the machine does; with another compiler or
C library they move by a few per cent. The baseline is .ci/instructions.json: instructions in all
and packet-hops of each transfer, in user space, by valgrind. Lower it when something became faster.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / ".ci" / "instructions.json"
ALLOWED = 1.05
CASES = {
    "reference": ("reference", "flow.bulk=20MB"),
    "reference-mptcp": ("reference-mptcp", "flow.bulk=20MB"),
    "reference-loss": ("reference-loss", "flow.bulk=5MB"),
    "flows-1000": ("flows-1000", "duration=1s"),
}


def measure(binary, scenario, change):
    """Instructions and packet-hops of one transfer."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command += [binary, "sim", "run", str(ROOT / "scenarios" / "bench" / f"{scenario}.toml")]
    command += ["--set", change, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or not counted:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    hops = json.loads(done.stdout)["cost"]["packet_hops"]
    return {"instructions": int(counted[1].replace(",", "")), "packet_hops": hops}


def per_hop(counts):
    """Instructions that a packet-hop costs, start of the program included."""
    return counts["instructions"] / counts["packet_hops"]


def main():
    """Measures all cases, two at a time."""
    binary, update = sys.argv[1], "--update" in sys.argv[2:]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = {name: pool.submit(measure, binary, *case) for name, case in CASES.items()}
        found = {name: future.result() for name, future in futures.items()}
    if update:
        BASELINE.write_text(json.dumps(found, indent=2) + "\n")
    known = json.loads(BASELINE.read_text())
    assert known.keys() == found.keys(), "the baseline has other transfers: --update"
    worse = []
    for name, counts in found.items():
        ratio = per_hop(counts) / per_hop(known[name])
        print(f"{name:16} {per_hop(counts):7.0f} instructions a hop, {100 * (ratio - 1):+.1f} %")
        if ratio > ALLOWED:
            worse.append(name)
    if worse:
        names = ", ".join(worse)
        sys.exit(f"more than 5 % dearer: {names} (if it must be: --update, and say why)")


main()
