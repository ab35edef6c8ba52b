"""Published experiments, repeated in the simulator (``docs/papers.md``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex

from tabane import _native, _values
from tabane._pcap import _table
from tabane._scenario import Value
from tabane._table import Table


@dataclass(frozen=True)
class Paper:
    """A published experiment that can be repeated."""

    name: str
    """The word for it."""
    alias: str
    """Its number in ``docs/papers.md``; accepted wherever the name is."""
    title: str
    """As published."""
    summary: str
    """What is repeated, in one line."""


class Report:
    """What came of a paper.

    Attributes:
        document: all of it, as ``report.json`` of ``tabane paper run`` has it.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @property
    def claims(self) -> Table:
        """A row a claim: ``id``, ``text``, ``paper``, ``ours``, ``unit``, ``verdict``.

        The values are texts, because some papers say words and not numbers.
        """
        names = ("id", "text", "paper", "ours", "unit", "verdict")
        claims = self.document["claims"]
        return _table({n: _text(claim[n]) for n in names} for claim in claims)

    @property
    def cells(self) -> Table:
        """A row a cell of the paper's tables and figures.

        ``table``, ``row``, ``column``, ``paper`` (NaN where it gives none), ``ours``, ``unit``.
        """
        return _table(cell for cell in self.document["cells"])

    def __repr__(self) -> str:
        return f"<Report of {self.document['paper']!r}>\n{self.claims!r}"


def all() -> list[Paper]:
    """Returns the papers that can be repeated."""
    return [Paper(*row) for row in _native.papers()]


def run(
    name: str,
    *,
    quick: bool = False,
    seed: SupportsIndex = 1,
    set: Mapping[str, Value] | None = None,
    jobs: int = 0,
    folder: str | PathLike[str] | None = None,
) -> Report:
    """Repeats a paper. All of them take minutes; one that differs from the paper is a result.

    Ctrl-C has its effect only when the paper is done.

    Args:
        name: name or alias of the paper.
        quick: fewer points and repetitions.
        seed: seed of everything random.
        set: values laid over the scenario of every run; the report says so.
        jobs: runs at a time; 0: one a core.
        folder: where the page, tables and figures are written, if anywhere.

    Raises:
        ValueError: there is no such paper.
        RunError: a run failed.
        PolicyError: a policy of yours raised; told when all runs of that step are done.
    """
    sets = _values.sets(set)
    number = _values.seed(seed, "seed")
    target = Path(folder) if folder is not None else None
    return Report(json.loads(_native.repeat_paper(name, quick, number, sets, jobs, target)))


def _text(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
