"""Sweeps: many runs, kept on the disk as they finish, in one table."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from tabane import _native, _policy, _values
from tabane._errors import RunError
from tabane._fingerprint import UnknownError
from tabane._scenario import Scenario, Value
from tabane._table import Table

if TYPE_CHECKING:
    import pandas
    import polars

_EXECUTORS = ("threads", "ray")
_ANOTHER = "name a folder with cache= or $TABANE_CACHE, or sweep with cache=False"
#: Key, values as texts, and values as given.
_Axis = tuple[str, list[str], list[Any]]
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
#: How results come back: number of the plan, and the result as JSON.
Results = Iterable[tuple[int, str]]


def sweep(
    scenario: Scenario | str | PathLike[str],
    over: Mapping[str, Iterable[Any]] | None = None,
    *,
    seeds: Iterable[SupportsIndex] | None = None,
    set: Mapping[str, Value] | None = None,
    executor: Literal["threads", "ray"] = "threads",
    jobs: int | None = None,
    progress: bool = True,
    cache: str | PathLike[str] | Literal[False] | None = None,
) -> Sweep:
    """Runs a scenario for every combination of values, and for every seed.

    Runs are kept on the disk as they finish, by a hash of scenario, seed and program. After Ctrl-C
    the same call goes on from there; a sweep that has grown runs only what is new.

    Args:
        scenario: a `Scenario`, or the path of a scenario file; its own lists are axes, too.
        over: values by dotted key: ``{"link.lte.delay": ["20ms", "80ms"]}``.
        seeds: seeds of each point, in place of those that the scenario has; its own if not given.
        set: values laid over every run.
        executor: ``"threads"``: this machine's cores; ``"ray"``: the Ray cluster that this process
            is connected to (``ray.init``), which needs ``pip install tabane[ray]``.
        jobs: runs at a time; by default one a core (with Ray, two tasks a core of the cluster).
            Policies written in Python take turns within a process.
        progress: show a bar, if tqdm is there.
        cache: folder of the results; by default ``$TABANE_CACHE``, else ``tabane`` in the user's
            cache folder. ``False`` keeps nothing.

    Raises:
        ValueError: there is no such executor.
        ScenarioError: a point is wrong; nothing was run.
        RunError: a run had to be broken off, a kept result is damaged, or there is no folder that
            takes results (nothing was run). Runs that were done are kept.
        KeyboardInterrupt: after Ctrl-C, likewise.

    Warns:
        UserWarning: in a run, a flow or a change comes when it is over.
    """
    if executor not in _EXECUTORS:
        known = ", ".join(_EXECUTORS)
        raise ValueError(f"there is no executor {executor!r}; executors are: {known}")
    made = scenario if isinstance(scenario, Scenario) else Scenario.read(scenario)
    axes, plans = _points(made, over or {}, seeds, set or {})
    made._warn_of_late(plans)
    kept = _Kept(cache, made)
    rows = _native.Rows()
    done: list[int] = []
    with _bar(progress, len(plans)) as tick:
        missing = []
        for n, plan in enumerate(plans):
            json = kept.get(plan)
            if json is None:
                kept.prepare(plan)
                missing.append(n)
            else:
                kept.add(plan, json, rows)
                done.append(n)
                tick()
        todo = [plans[n] for n in missing]
        results = _with_ray(made, todo, jobs) if executor == "ray" else _on_threads(todo, jobs)
        with closing(results):
            for k, json in results:
                kept.put(plans[missing[k]], json)
                rows.add(json)
                done.append(missing[k])
                tick()
    return Sweep(axes, plans, done, rows)


def _points(
    scenario: Scenario,
    over: Mapping[str, Iterable[Any]],
    seeds: Iterable[SupportsIndex] | None,
    set: Mapping[str, Value],
) -> tuple[list[_Axis], list[_native.Plan]]:
    """The axes, and every run."""
    given = {key: _values.several(values, key) for key, values in over.items()}
    values = {**set, **given}
    if seeds is not None:
        if "seed" in over:
            raise _values.fault("seed", "in `over` and as `seeds`", "leave one of them out")
        # One, whatever it is: each run gets its own.
        values["seed"] = 1
    document = scenario._document(values)
    axes = [(key, texts, given.get(key, texts)) for key, texts in document.axes()]
    for key, texts, _ in axes:
        _once(texts, key)
    plans = document.plans()
    _differ(plans)
    if seeds is not None:
        chosen = [_values.seed(seed, "seeds") for seed in seeds]
        _once(chosen, "seeds")
        plans = [plan.with_seed(seed) for plan in plans for seed in chosen]
    return axes, plans


def _once(values: Sequence[object], at: str) -> None:
    """Refuses values that are there twice: the same run again would pass for another one."""
    value, count = Counter(values).most_common(1)[0] if values else (None, 0)
    if count > 1:
        raise _values.fault(at, f"{value} is there {count} times", "each value once")


def _differ(plans: list[_native.Plan]) -> None:
    """Refuses points that mean the same in other words, such as ``0`` and ``"0%"``."""
    # Hashes, as there may be a million of texts.
    seen: dict[bytes, _native.Plan] = {}
    for plan in plans:
        same = seen.setdefault(hashlib.sha256(plan.toml().encode()).digest(), plan)
        if same is plan:
            continue
        pairs = zip(same.params, plan.params, strict=True)
        key, one, two = next((key, a, b) for (key, a), (_, b) in pairs if a != b)
        raise _values.fault(key, f"{one} and {two} are the same", "each value once")


def _on_threads(
    plans: list[_native.Plan], jobs: int | None
) -> Generator[tuple[int, str], None, None]:
    pool = _native.Pool(plans, jobs or 0)
    try:
        yield from pool
    finally:
        pool.close()


def _with_ray(
    scenario: Scenario, plans: list[_native.Plan], jobs: int | None
) -> Generator[tuple[int, str], None, None]:
    from tabane import _ray

    return _ray.run(scenario, plans, jobs)


class Sweep:
    """The results of a sweep, in order of its points and seeds."""

    def __init__(
        self,
        axes: list[_Axis],
        plans: list[_native.Plan],
        done: list[int],
        rows: _native.Rows,
    ) -> None:
        self._axes = axes
        self._runs = len(plans)
        order = np.array(done, dtype=np.int64)
        self.flows = self._table(rows.flows(), plans, order)
        """A row a flow of a run: a column for each axis, ``seed``, and those of `Result.flows`."""
        self.paths = self._table(rows.paths(), plans, order)
        """A row a subflow of a run: a column for each axis, ``seed``, and `Result.paths`."""

    def __len__(self) -> int:
        """The number of runs."""
        return self._runs

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The axes: values by dotted key."""
        return {key: list(values) for key, _, values in self._axes}

    def pandas(self) -> pandas.DataFrame:
        """Returns `flows` as a pandas data frame (needs pandas)."""
        return self.flows.pandas()

    def polars(self) -> polars.DataFrame:
        """Returns `flows` as a polars data frame (needs polars)."""
        return self.flows.polars()

    def estimates(self, metric: str = "goodput_bps") -> Table:
        """Returns the mean of a metric over the seeds, and how sure it is.

        Args:
            metric: a column of `flows`; values that are not there (NaN) are left out.

        Returns:
            A row a point and flow: the axes, ``flow``, ``runs``, ``mean``, ``low``, ``high``. The
            last two are the 95 % interval of the mean (Student's t); with one run they are the
            mean.
        """
        keys = [key for key, _, _ in self._axes if key != "seed"] + ["flow"]
        groups: dict[tuple[Any, ...], list[float]] = {}
        for *key, value in zip(*(self.flows[k] for k in keys), self.flows[metric], strict=True):
            values = groups.setdefault(tuple(key), [])
            if not np.isnan(value):
                values.append(float(value))
        rows = [(key, len(values), *estimate(values)) for key, values in groups.items()]
        columns = {name: _column([row[0][n] for row in rows]) for n, name in enumerate(keys)}
        columns["runs"] = np.array([row[1] for row in rows], dtype=np.int64)
        means = np.array([row[2] for row in rows], dtype=np.float64)
        half = np.array([row[3] for row in rows], dtype=np.float64)
        return Table({**columns, "mean": means, "low": means - half, "high": means + half})

    def _table(
        self, raw: dict[str, tuple[Any, Any]], plans: list[_native.Plan], done: _Numbers
    ) -> Table:
        table = Table._of(raw)
        run = done[table["run"]]
        order = np.argsort(run, kind="stable")
        run = run[order]
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for at, (key, texts, values) in enumerate(self._axes):
            by_text = dict(zip(texts, values, strict=True))
            each = _column([by_text[plan.params[at][1]] for plan in plans])
            columns[key] = each[run]
        columns["seed"] = _column([plan.seed for plan in plans])[run]
        columns.update({name: table[name][order] for name in table if name != "run"})
        return Table(columns)

    def __repr__(self) -> str:
        return f"<Sweep of {len(self)} runs over {list(self.axes)}>\n{self.flows!r}"


def estimate(values: Sequence[float] | np.ndarray[Any, Any]) -> tuple[float, float]:
    """Returns the mean and half the width of its 95 % interval (Student's t).

    Half the width is 0 with a single value; both are NaN without any.
    """
    found = _native.estimate_of([float(value) for value in values])
    return found if found is not None else (float("nan"), float("nan"))


def _column(values: list[Any]) -> np.ndarray[Any, Any]:
    """Numbers as numbers, everything else as text."""
    kinds = {type(value) for value in values}
    if kinds <= {int}:
        # Together with the others, numpy would make floats of the largest.
        return np.array(values, dtype=np.int64 if max(values, default=0) < 2**63 else np.uint64)
    if kinds <= {bool} or kinds <= {int, float}:
        return np.array(values)
    labels = [_policy.label_of(v) or str(v) for v in values]
    names = [_policy.name_of(v) or str(v) for v in values]
    column = np.empty(len(values), dtype=object)
    column[:] = labels if len({*labels}) == len({*names}) else names
    return column


class _Kept:
    """Results on the disk: a file a run, replaced whole."""

    def __init__(
        self, folder: str | PathLike[str] | Literal[False] | None, scenario: Scenario
    ) -> None:
        self._root = None if folder is False else Path(folder if folder is not None else _root())
        self._files = scenario._files
        self._traces: dict[str, str] = {}
        self._policies: dict[tuple[_policy.Key, ...], dict[_policy.Key, str] | None] = {}
        self._told: set[str] = set()
        stat = Path(_native.__file__).stat()
        self._program = f"{_native.__version__} {stat.st_size} {stat.st_mtime_ns}"

    def get(self, plan: _native.Plan) -> str | None:
        path = self._path(plan)
        try:
            return path.read_text("utf-8") if path is not None else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise _damaged(path, error) from error
        except OSError as error:
            raise _useless(path, error) from error

    def prepare(self, plan: _native.Plan) -> None:
        """Makes the folder that a result goes to, before it costs a run to learn that it cannot."""
        path = self._path(plan)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))
        except OSError as error:
            raise _useless(path.parent, error) from error

    def add(self, plan: _native.Plan, json: str, rows: _native.Rows) -> None:
        try:
            rows.add(json)
        except ValueError as error:
            raise _damaged(self._path(plan), error) from error

    def put(self, plan: _native.Plan, json: str) -> None:
        path = self._path(plan)
        if path is None or self._changes(plan):
            return
        # Not a file of `tempfile`, which is its user's alone: a folder may be shared.
        whole = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            whole.write_text(json, "utf-8")
            os.replace(whole, path)
        except OSError as error:
            raise _useless(path, error) from error
        finally:
            whole.unlink(missing_ok=True)

    def _path(self, plan: _native.Plan) -> Path | None:
        if self._root is None:
            return None
        text = plan.toml()
        keys = tuple(_policy.in_python(text))
        if keys not in self._policies:
            self._policies[keys] = self._fingerprint(keys)
        policies = self._policies[keys]
        if policies is None:
            return None
        parts = [
            self._program,
            _policy.by_content(text, policies),
            *sorted(policies.values()),
            *map(self._trace, plan.traces() + plan.policy_files()),
        ]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._root / key[:2] / f"{key[2:]}.json"

    def _changes(self, plan: _native.Plan) -> bool:
        """Whether a run has changed what its policies depend on: it is not that of before."""
        keys = tuple(_policy.in_python(plan.toml()))
        before, now = self._policies[keys], self._fingerprint(keys)
        if before == now:
            return False
        self._policies[keys] = None
        self._tell(", ".join(name for _, name in keys), "runs change what it depends on")
        return True

    def _fingerprint(self, keys: tuple[_policy.Key, ...]) -> dict[_policy.Key, str] | None:
        found = {}
        for key in keys:
            try:
                found[key] = _policy.fingerprint(key)
            except UnknownError as error:
                self._tell(key[1], str(error))
                return None
        return found

    def _tell(self, policy: str, why: str) -> None:
        if policy not in self._told:
            self._told.add(policy)
            message = (
                f"results with policy '{policy}' are not kept: {why}. Give the class a version "
                '(`version = "1"`), and another one whenever it decides otherwise; '
                "or sweep with cache=False"
            )
            warnings.warn(message, UserWarning, stacklevel=6)

    def _trace(self, name: str) -> str:
        if name not in self._traces:
            given = self._files.get(name)
            content = given.encode() if given is not None else Path(name).read_bytes()
            self._traces[name] = hashlib.sha256(content).hexdigest()
        return self._traces[name]


def _root() -> Path:
    """The folder for results that nobody named."""
    if given := os.environ.get("TABANE_CACHE", ""):
        return Path(given)
    if caches := os.environ.get("XDG_CACHE_HOME", ""):
        return Path(caches) / "tabane"
    try:
        return Path.home() / ".cache" / "tabane"
    except RuntimeError as error:
        raise RunError(
            f"results have no folder, as there is no home ({error}): {_ANOTHER}"
        ) from error


def _useless(path: Path | None, error: OSError) -> RunError:
    return RunError(f"{path}: results cannot be kept there ({error.strerror}): {_ANOTHER}")


def _damaged(path: Path | None, error: ValueError) -> RunError:
    return RunError(f"{path}: a kept result cannot be read ({error}): delete the file")


class _bar:
    """A progress bar, if it is wanted and tqdm is there."""

    def __init__(self, wanted: bool, total: int) -> None:
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, unit="run")

    def __enter__(self) -> Callable[[], object]:
        return self._bar.update if self._bar is not None else lambda: None

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
