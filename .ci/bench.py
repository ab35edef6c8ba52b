"""Runs `cargo bench` and compares each median with a baseline.

    python3 .ci/bench.py             runs all benchmarks and compares
    python3 .ci/bench.py --last      compares what the last `cargo bench` left
    python3 .ci/bench.py --update    makes what was found the baseline (with --last or without)

Seconds depend on the machine and on what else it does, so nothing fails here: what must not grow is
counted in instructions (check_instructions.py). To tell a slower machine from a slower program, a
yardstick that is none of ours, SHA-256 of 64 MiB, is measured before and after; the last column is
the ratio of times divided by that of the yardstick. The baseline is .ci/bench.json.
"""

import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / ".ci" / "bench.json"
RESULTS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "criterion"
NOTABLE = 1.15


def yardstick():
    """Nanoseconds of SHA-256 over 64 MiB, median of seven."""
    data = bytes(64 << 20)
    times = []
    for _ in range(7):
        begin = time.perf_counter_ns()
        hashlib.sha256(data).digest()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times)


def medians():
    """Nanoseconds an iteration of each benchmark, by its full name."""
    found = {}
    for path in RESULTS.rglob("new/estimates.json"):
        name = json.loads((path.parent / "benchmark.json").read_text())["full_id"]
        found[name] = json.loads(path.read_text())["median"]["point_estimate"]
    return dict(sorted(found.items()))


def readable(nanoseconds):
    """With a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.1f} ns"


def compare(known, found, pace):
    """A line for each benchmark."""
    print(f"{'':52} {'baseline':>10} {'now':>10} {'ratio':>6} {'by pace':>8}")
    for name in sorted(known.keys() | found.keys()):
        before, now = known.get(name), found.get(name)
        if before is None or now is None:
            what = "new" if before is None else "not measured"
            print(f"{name:52} {readable(now or before):>21} {what}")
            continue
        ratio = now / before
        paced = ratio / pace
        mark = "slower" if paced > NOTABLE else "faster" if paced < 1 / NOTABLE else ""
        columns = f"{readable(before):>10} {readable(now):>10} {ratio:6.2f} {paced:8.2f}"
        print(f"{name:52} {columns}  {mark}".rstrip())


def main():
    """Runs, compares, and perhaps writes."""
    wishes = set(sys.argv[1:])
    if wishes - {"--last", "--update"}:
        sys.exit(__doc__)
    before = yardstick()
    if "--last" not in wishes:
        command = ["cargo", "bench", "--locked", "--workspace", "--bench", "*"]
        subprocess.run(command, cwd=ROOT, check=True)
    now = statistics.mean([before, yardstick()])
    found = medians()
    if not found:
        sys.exit(f"nothing in {RESULTS}: run without --last")
    if "--update" in wishes:
        BASELINE.write_text(json.dumps({"yardstick": now, "medians": found}, indent=2) + "\n")
    known = json.loads(BASELINE.read_text())
    pace = now / known["yardstick"]
    print(f"yardstick: {readable(known['yardstick'])} then, {readable(now)} now\n")
    compare(known["medians"], found, pace)


if __name__ == "__main__":
    main()
