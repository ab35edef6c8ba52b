"""Plots with matplotlib."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tabane._run import Result


def series(result: Result, metric: str) -> Figure:
    """A metric of a run over time: a line a subflow, and a thick one a connection."""
    from matplotlib.figure import Figure

    table = result.series_of(metric)
    unit = metric.rsplit("_", 1)[-1]
    scale, label = {"bps": (1e-6, "Mbit/s"), "s": (1e3, "ms"), "bytes": (1e-3, "kB")}.get(
        unit, (1.0, unit)
    )
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    keys = list(zip(*(table[c] for c in ("flow", "host", "path", "subflow")), strict=True))
    lines = list(dict.fromkeys(keys))
    names = _names(lines)
    wholes = [subflow < 0 and not path for _, _, path, subflow in lines]
    for n, (key, name, whole) in enumerate(zip(lines, names, wholes, strict=True)):
        rows = np.array([other == key for other in keys])
        times, values = table["t"][rows], table["value"][rows]
        if unit == "bps":
            times, values = _means(times, values)
        axes.plot(
            times,
            values * scale,
            label=name,
            color="black" if whole and sum(wholes) == 1 else f"C{n}",
            linestyle=_STYLES[n // 10 % len(_STYLES)],
            linewidth=1.5 if whole else 1.0,
        )
    axes.set_xlabel("time (s)")
    axes.set_ylabel(f"{metric.removesuffix('_' + unit).replace('_', ' ')} ({label})")
    axes.set_title(f"{result.name}, seed {result.seed}")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


#: Matplotlib has ten colours; more lines than that differ in these.
_STYLES = ("-", "--", ":", "-.")


def _names(lines: list[tuple[Any, ...]]) -> list[str]:
    """What lines are called: flow and path, and what else tells one from another."""
    names = [" ".join(filter(None, (flow, path or host))) for flow, host, path, _ in lines]
    for more in (lambda host, subflow: host, lambda host, subflow: f"#{subflow}"):
        count = Counter(names)
        names = [
            f"{name} {more(host, subflow)}" if count[name] > 1 else name
            for name, (_, host, _, subflow) in zip(names, lines, strict=True)
        ]
    return names


#: Points of a rate in a plot at most: what arrives out of order is delivered in leaps.
_POINTS = 100


def _means(
    times: np.ndarray[Any, Any], rates: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rates as means of longer intervals; each is the mean since the point before it."""
    if len(times) <= _POINTS:
        return times, rates
    amounts = np.concatenate([[0.0], np.cumsum(rates[1:] * np.diff(times))])
    grid = np.linspace(times[0], times[-1], _POINTS + 1)
    return grid[1:], np.diff(np.interp(grid, times, amounts)) / np.diff(grid)
