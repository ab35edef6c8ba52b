"""Multipath TCP in a deterministic simulator.

`Scenario` says what there is, `run` runs it, `sweep` runs many.
"""

from tabane._errors import PolicyError, RunError, ScenarioError, TabaneError
from tabane._native import (
    Ack,
    Blocked,
    Congestion,
    SubflowView,
    Work,
    __version__,
)
from tabane._policy import CongestionController, Scheduler, register
from tabane._run import Result, run
from tabane._scenario import Scenario
from tabane._sweep import Sweep, estimate, sweep
from tabane._table import Table

__all__ = [
    "Ack",
    "Blocked",
    "Congestion",
    "CongestionController",
    "PolicyError",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "SubflowView",
    "Sweep",
    "TabaneError",
    "Table",
    "Work",
    "__version__",
    "estimate",
    "register",
    "run",
    "sweep",
]
