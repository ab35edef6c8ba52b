"""Multipath TCP in a deterministic simulator.

`Scenario` says what there is, `run` runs it, `sweep` runs many.
"""

from tabane._errors import PolicyError, RunError, ScenarioError, TabaneError
from tabane._native import __version__
from tabane._run import Result, run
from tabane._scenario import Scenario
from tabane._table import Table

__all__ = [
    "PolicyError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "TabaneError",
    "Table",
    "__version__",
    "run",
]
