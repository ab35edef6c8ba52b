"""Scenarios: from a file, from text, or built in Python."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tabane import _native, _policy, _values

#: What `set` and `over` take for a key: anything that TOML can say. Numbers of numpy, `Decimal` and
#: paths are taken for what they stand for.
Value = (
    str
    | bool
    | int
    | float
    | Decimal
    | np.generic
    | PathLike[str]
    | type[_policy.Scheduler]
    | type[_policy.CongestionController]
    | Mapping[str, Any]
    | Iterable[Any]
)


class Scenario:
    """Links, hosts, flows and changes: everything that a run depends on.

    The keys are those of scenario files (``docs/scenarios.md``), the values too: rates
    ``"20Mbps"``, times ``"10ms"``, sizes ``"500MB"``, shares ``"1%"``. ::

        scenario = tabane.Scenario(
            duration="20s",
            link={"wifi": {"rate": "50Mbps", "delay": "10ms"}},
            flow=[{"bulk": "20MB"}],
        )
        scenario = tabane.Scenario().link("wifi", rate="50Mbps").flow(bulk="20MB")

    A scenario does not change: it copies what it is built from, and the methods that add to one
    return another. What is wrong with it is found when it is checked or run; only values that no
    scenario can hold are refused at once.
    """

    def __init__(self, **keys: Any) -> None:
        """Builds a scenario from the top-level keys of a scenario file.

        Args:
            **keys: ``name``, ``seed``, ``duration``, ``defaults``, ``host``, ``proxy``, ``link``,
                ``routers``, ``path``, ``flow``, ``at``, ``output`` and the others of
                ``docs/scenarios.md``. Tables are dictionaries, ``flow`` and ``at`` lists of them.

        Raises:
            ScenarioError: a value is one that no scenario can hold, such as ``None``.
        """
        made = {
            _values.name(key, "scenario"): _values.built(value, key) for key, value in keys.items()
        }
        # Either of them.
        self._keys: dict[str, Any] | None = made
        self._text = ""
        self._name = str(made.get("name", "scenario"))
        self._folder = ""
        self._read_in: str | None = None
        self._files: dict[str, str] = {}

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Scenario:
        """Reads a scenario file (TOML). Files that it names are relative to it.

        Raises:
            OSError: the file cannot be read.
        """
        scenario = cls.parse(_native.Document.text_of(Path(path)), name=str(path))
        scenario._folder = os.path.dirname(path)
        scenario._read_in = os.getcwd()
        return scenario

    @classmethod
    def parse(
        cls, text: str, name: str = "scenario", files: Mapping[str, str] | None = None
    ) -> Scenario:
        """Takes the text of a scenario file.

        Args:
            text: TOML.
            name: how messages call it; without a ``name`` in the text, its stem is the name in
                results.
            files: texts of files that it names, by that name; others are read from the disk.

        Raises:
            ScenarioError: the text is none.
        """
        scenario = cls()
        scenario._keys = None
        scenario._text = _values.text(text, name)
        scenario._name = _values.text(name, "name")
        scenario._files = {
            _values.name(file, "files"): _values.text(content, f"files.{file}")
            for file, content in (files or {}).items()
        }
        return scenario

    @property
    def toml(self) -> str:
        """The scenario as the text of a scenario file."""
        if self._keys is None:
            return self._text
        # Each time anew: another class may have the name by now.
        return _native.Document.toml_of(json.dumps(self._keys, default=_policy.name_of))

    def link(self, name: str, **keys: Any) -> Scenario:
        """Returns the scenario with a link: ``rate``, ``delay``, ``loss``, ``queue``..."""
        return self._with_named("link", name, keys)

    def host(self, name: str, **keys: Any) -> Scenario:
        """Returns the scenario with settings of a host: ``scheduler``, ``congestion``..."""
        return self._with_named("host", name, keys)

    def proxy(self, name: str, **keys: Any) -> Scenario:
        """Returns the scenario with a proxy: ``listen`` and ``connect``."""
        return self._with_named("proxy", name, keys)

    def tunnel(self, name: str, **keys: Any) -> Scenario:
        """Returns the scenario with a tunnel: ``links`` or ``paths``, ``congestion``..."""
        return self._with_named("tunnel", name, keys)

    def path(self, name: str, links: Sequence[str], **keys: Any) -> Scenario:
        """Returns the scenario with a path: its links in order; ``from_``, ``to``, ``backup``."""
        if isinstance(links, str):
            help = f"a path has a list of links: write [{links!r}]"
            raise _values.fault(f"path.{name}.links", f"{links!r} is one name", help)
        return self._with_named("path", name, {"links": links, **_plain(keys)})

    def flow(self, **keys: Any) -> Scenario:
        """Returns the scenario with a flow: ``bulk``, ``request``, ``paced`` or ``onoff``...

        ``from`` is a word of Python: write ``from_``.
        """
        return self._with_entry("flow", _plain(keys))

    def at(self, time: str, **keys: Any) -> Scenario:
        """Returns the scenario with a change at a time: ``down``, ``up``, ``link``, ``rate``..."""
        return self._with_entry("at", {"time": time, **keys})

    def check(self, set: Mapping[str, Value] | None = None) -> None:
        """Checks it without running it.

        Args:
            set: values laid over it, by dotted key.

        Raises:
            ScenarioError: with the place and the remedy.

        Warns:
            UserWarning: a flow or a change comes when the run is over.
        """
        self._warn_of_late(self._document(set).plans())

    def axes(self, set: Mapping[str, Value] | None = None) -> dict[str, list[str]]:
        """Returns the keys that have a list where one value is expected, with the values."""
        return dict(self._document(set).axes())

    def _warn_of_late(self, plans: Iterable[_native.Plan]) -> None:
        """Says what no run shows; called by what users call."""
        for late in dict.fromkeys(late for plan in plans for late in plan.late()):
            warnings.warn(f"{self._name}: {late}", stacklevel=3)

    def _document(self, set: Mapping[str, Value] | None) -> _native.Document:
        files = list(self._files.items())
        folder = self._folder
        # Relative for as long as that leads there: results say it as the command line's do.
        if self._read_in is not None and self._read_in != os.getcwd():
            folder = os.path.join(self._read_in, folder)
        return _native.Document(self._name, self.toml, _values.sets(set), folder, files)

    def _built(self) -> dict[str, Any]:
        if self._keys is None:
            raise TypeError(
                "this scenario came as text: change it with `set`, or build one in Python"
            )
        return self._keys

    def _with_named(self, kind: str, name: str, keys: dict[str, Any]) -> Scenario:
        name = _values.name(name, kind)
        made = _values.built(keys, f"{kind}.{name}")
        return self._with(kind, {**self._built().get(kind, {}), name: made})

    def _with_entry(self, kind: str, keys: dict[str, Any]) -> Scenario:
        old = self._built().get(kind, [])
        return self._with(kind, [*old, _values.built(keys, f"{kind}.{len(old)}")])

    def _with(self, kind: str, value: Any) -> Scenario:
        made = Scenario()
        made._keys = {**self._built(), kind: value}
        made._name = self._name
        return made

    def __getstate__(self) -> dict[str, Any]:
        # A name of a policy is this process's alone: its class goes along, unless it is there.
        text = self._text if self._keys is None else json.dumps(self._keys, default=lambda _: None)
        return {**vars(self), "policies": _policy.classes_in(text)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        _policy.adopt(state.pop("policies"))
        vars(self).update(state)

    def __repr__(self) -> str:
        return f"<Scenario {self._name!r}>"


def _plain(keys: dict[str, Any]) -> dict[str, Any]:
    return {key.removesuffix("_"): value for key, value in keys.items()}
