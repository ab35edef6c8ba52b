"""One run, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from tabane import _native, _values
from tabane._errors import RunError, ScenarioError
from tabane._scenario import Scenario, Value
from tabane._table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(
    scenario: Scenario | str | PathLike[str],
    *,
    seed: SupportsIndex | None = None,
    set: Mapping[str, Value] | None = None,
    watch: bool = True,
    records: bool = False,
) -> Result:
    """Runs a scenario in simulated time. Other Python threads go on meanwhile; Ctrl-C ends it.

    The same scenario, seed and overrides give the same result, to the byte, as
    ``tabane sim run`` and on any machine.

    Args:
        scenario: a `Scenario`, or the path of a scenario file.
        seed: seed of everything random; the scenario's own if not given.
        set: values laid over the scenario, by dotted key, as ``--set`` takes them:
            ``{"link.lte.rate": "20Mbps", "host.server.scheduler": "necf"}``.
        watch: keep series and events. Without them a run is about twice as fast.
        records: the events of every packet too (about 500 bytes a packet).

    Raises:
        ScenarioError: the scenario is wrong, or is a sweep (use `tabane.sweep`).
        RunError: the run had to be broken off.

    Warns:
        UserWarning: a flow or a change comes when the run is over.
    """
    made = scenario if isinstance(scenario, Scenario) else Scenario.read(scenario)
    plan = _plan(made, seed, set or {})
    made._warn_of_late([plan])
    return Result(_native.run(plan, watch or records, records), made._files)


def _plan(made: Scenario, seed: SupportsIndex | None, set: Mapping[str, Value]) -> _native.Plan:
    # Before the axes are looked for: seeds of the scenario's own are one.
    given = {} if seed is None else {"seed": _values.seed(seed, "seed")}
    values = {**set, **given}
    plans = made._document(values).plans()
    if len(plans) != 1:
        axes = ", ".join(made.axes(values))
        raise ScenarioError(
            f"{made._name}: this is a sweep of {len(plans)} runs, not one run\n"
            f"      = use tabane.sweep, or set one value for: {axes}",
            made._name,
        )
    return plans[0]


class Result:
    """What came of a run. Times are seconds, rates bits per second of payload."""

    def __init__(self, output: _native.Output, files: Mapping[str, str]) -> None:
        self._output = output
        self._files = files

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self._output.plan.name

    @property
    def seed(self) -> int:
        """The seed that everything random came from."""
        return self._output.plan.seed

    @property
    def scenario(self) -> Scenario:
        """The scenario as it ran, with what was laid over it."""
        return Scenario.parse(self._output.plan.toml(), self.name, self._files)

    @property
    def ended_s(self) -> float:
        """When the run ended, simulated seconds."""
        return self._output.ended_s

    @property
    def packet_hops(self) -> int:
        """Packets times link directions crossed: what the run cost."""
        return self._output.packet_hops

    @cached_property
    def flows(self) -> Table:
        """A row a flow.

        ``flow``; ``bytes`` of payload delivered; ``goodput_bps``; ``completed_s`` from its start
        (NaN if it did not finish); ``latency_count``, ``latency_mean_s``, ``latency_p50_s``,
        ``latency_p95_s``, ``latency_p99_s``, ``latency_max_s`` for applications that measure it;
        ``failed``: why it ended early; ``corrupt``: a wrong byte was delivered.
        """
        return _without_run(self._output.flows())

    @cached_property
    def paths(self) -> Table:
        """A row a subflow: ``flow``, ``subflow`` (from 0), ``path``, ``bytes``, ``goodput_bps``.

        ``bytes`` are those that it was the first to deliver, ``share`` (0 to 1) its part of what
        all of the flow's did.
        """
        return _without_run(self._output.paths())

    @cached_property
    def links(self) -> Table:
        """A row a link direction: ``link``, ``from``, ``to``, ``packets``, ``bytes``, ``lost``.

        Packets and bytes are those delivered, IP headers included; ``lost`` are packets.
        """
        return Table._of(self._output.links())

    @cached_property
    def figures(self) -> Table:
        """A row a figure of the whole run, as ``summary.csv`` of the command line has them.

        ``flow``, ``host``, ``subflow``, ``path``, ``metric``, ``value``; the unit is the last word
        of the metric.
        """
        return Table._of(self._output.figures())

    @cached_property
    def series(self) -> Table:
        """A row a point in time, as ``series.csv`` of the command line has them.

        ``t`` in seconds, ``flow``, ``host``, ``subflow`` (-1: the connection), ``path``,
        ``metric``, ``value``; the unit is the last word of the metric.

        Raises:
            RunError: the run was not watched.
        """
        return Table._of(self._watched(self._output.series()))

    @cached_property
    def events(self) -> Table:
        """A row an event, in order of time.

        ``t`` in seconds, ``host``, ``flow``, ``conn`` and ``subflow`` (-1: none), ``event``,
        ``detail`` (JSON, empty if there is no more to say). Events of every packet are there only
        if the run had ``records=True``.

        Raises:
            RunError: the run was not watched.
        """
        return Table._of(self._watched(self._output.events()))

    @property
    def events_lost(self) -> int:
        """Events that were not kept, because a run keeps 10 million."""
        return self._output.events_lost

    @property
    def reasons(self) -> list[str]:
        """A sentence a sending subflow: how often it was chosen, and why not."""
        return self._output.reasons()

    def json(self) -> str:
        """Returns the result as ``tabane sim run --json`` prints it, its cost left out."""
        return self._output.json()

    def dict(self) -> dict[str, Any]:
        """Returns the result as nested dictionaries and lists: `json`, parsed."""
        return dict(json.loads(self.json()))

    def series_of(self, metric: str, **equal: object) -> Table:
        """Returns the rows of `series` of a metric.

        Args:
            metric: for example ``"goodput_bps"``, ``"cwnd_bytes"``, ``"srtt_s"``.
            **equal: other columns, for example ``path="wifi"``, ``subflow=-1``.
        """
        table = self.series.where(metric=metric, **equal)
        if not table:
            known = ", ".join(sorted(set(self.series["metric"])))
            raise KeyError(f"no series '{metric}' with {equal}; metrics are: {known}")
        return table

    def plot(self, metric: str = "goodput_bps") -> Figure:
        """Draws a metric over time: a line a subflow, and a thick one a connection.

        The latter is black if it is the only one. Needs matplotlib.

        Args:
            metric: one of ``series["metric"]``.
        """
        from tabane import _plot

        return _plot.series(self, metric)

    def pcap(self, path: str | PathLike[str], at: str = "client", snap: int = 0) -> None:
        """Writes the packets at a host or a link as pcapng. The run is made again for it.

        Args:
            path: the file, which is replaced.
            at: name of a host or a link.
            snap: bytes of each packet that are kept; 0 is all of it.
        """
        _native.capture(self._output.plan, Path(path), at, snap)

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Writes what ``tabane sim run --out`` writes, and the events as ``records.jsonl``.

        Args:
            folder: made if it is not there; files with the same names are replaced.

        Returns:
            The files.
        """
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        files = [(name, text.encode()) for name, text in self._output.files()]
        lines = self._output.lines()
        if lines is not None:
            files.append(("records.jsonl", lines))
        for name, content in files:
            (root / name).write_bytes(content)
        return [root / name for name, _ in files]

    def _watched(self, raw: Any) -> Any:
        if raw is None:
            raise RunError("this run was not watched: run it with watch=True")
        return raw

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            "a Result stays in its process: hand on its tables (`flows`, `paths`, `series`...), "
            "`dict()`, or the folder of `write(folder)`"
        )

    def __repr__(self) -> str:
        return f"<Result {self.name!r}, seed {self.seed}, {self.ended_s:.3f} s>\n{self.flows!r}"


def _without_run(raw: dict[str, tuple[Any, Any]]) -> Table:
    return Table._of({name: column for name, column in raw.items() if name != "run"})
