"""Multipath TCP in a deterministic simulator.

`Scenario` says what there is, `run` runs it, `sweep` runs many. `Scheduler` and
`CongestionController` are for policies in Python, `read_pcap` for captures; `tabane.gym`,
`tabane.papers` and `tabane.networkx` are modules to import.
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
from tabane._pcap import Capture, read_pcap
from tabane._policy import CongestionController, Scheduler, register
from tabane._run import Result, run
from tabane._scenario import Scenario
from tabane._sweep import Sweep, estimate, sweep
from tabane._table import Table

__all__ = [
    "Ack",
    "Blocked",
    "Capture",
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
    "read_pcap",
    "register",
    "run",
    "sweep",
]
