"""Sweeps on a Ray cluster: tasks of several runs, sized to take a moment each.

What travels is text: scenarios out, results back. A worker needs the wheel alone. A task whose
worker or node dies is run again elsewhere; the driver keeps no result, it hands each on.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tabane import _native, _policy
from tabane._scenario import Scenario

#: Times that a task is run again when its worker or node dies.
RETRIES = 10
#: Seconds that a task should take: long beside Ray's own milliseconds, short beside a sweep.
TASK_S = 0.5
#: Runs of a task at most.
TASK_RUNS = 500


def work(texts: list[str], files: list[tuple[str, str]]) -> tuple[list[str], float]:
    """Runs scenarios one after the other: their results, and the seconds that they took."""
    begin = time.perf_counter()
    results = []
    for text in texts:
        (plan,) = _native.Document("sweep", text, [], "", files).plans()
        results.append(_native.run(plan, False, False).json())
    return results, time.perf_counter() - begin


def run(
    scenario: Scenario, plans: list[_native.Plan], jobs: int | None
) -> Generator[tuple[int, str], None, None]:
    """Runs plans on the cluster that this process is connected to; results as they come."""
    import ray

    if not ray.is_initialized():
        raise RuntimeError("no Ray cluster: call ray.init() first")
    if any(plan.policy_files() for plan in plans):
        raise ValueError("policies made from files do not travel to Ray's workers: sweep without")
    names = sorted({name for plan in plans for _, name in _policy.in_python(plan.toml())})
    if names:
        raise ValueError(
            f"policies of this process ({', '.join(names)}) are not known to Ray's workers: "
            "use executor='threads'"
        )
    files = ray.put(_files(scenario, plans))
    task = ray.remote(max_retries=RETRIES, num_cpus=1)(work)
    limit = jobs or max(2, 2 * _cores())
    running: dict[Any, list[int]] = {}
    at, runs = 0, 1
    try:
        while at < len(plans) or running:
            while at < len(plans) and len(running) < limit:
                numbers = list(range(at, min(at + runs, len(plans))))
                texts = [plans[n].toml() for n in numbers]
                running[task.remote(texts, files)] = numbers
                at += len(numbers)
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            numbers = running.pop(done)
            results, took = ray.get(done)
            runs = max(1, min(TASK_RUNS, int(TASK_S * len(numbers) / max(took, 1e-6))))
            yield from zip(numbers, results, strict=True)
    finally:
        for task_id in running:
            ray.cancel(task_id)


def _cores() -> int:
    import ray

    # Ray has no types for it, and may not be there when types are checked.
    resources: Any = ray
    return int(resources.cluster_resources().get("CPU", 1))


def _files(scenario: Scenario, plans: list[_native.Plan]) -> list[tuple[str, str]]:
    """Texts of the files that the scenarios name: workers do not have them."""
    names = sorted({name for plan in plans for name in plan.traces()})
    known = scenario._files
    return [(name, known.get(name) or Path(name).read_text("utf-8")) for name in names]
