"""The package's exceptions. The native half raises them by name."""

from __future__ import annotations


class TabaneError(Exception):
    """Base of the package's own exceptions."""


class ScenarioError(TabaneError, ValueError):
    """A scenario is wrong. ``str()`` names the place and the remedy, as the command line does.

    Attributes:
        file: name of the file, or the name that the text was given.
        line: line in it, from 1; ``None`` where the fault has no one place.
        column: column in it, from 1, likewise.
        message: what is wrong.
        help: what to do; ``None`` if there is no remedy to name.
    """

    def __init__(
        self,
        text: str,
        file: str = "",
        line: int | None = None,
        column: int | None = None,
        message: str | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(text)
        self.file = file
        self.line = line
        self.column = column
        self.message = message if message is not None else text
        self.help = help

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[object, ...]]:
        args = (str(self), self.file, self.line, self.column, self.message, self.help)
        return (type(self), args)


class RunError(TabaneError, RuntimeError):
    """A run could not be made, or had to be broken off."""


class PolicyError(RunError):
    """A policy written in Python raised an exception; that exception is the ``__cause__``.

    Attributes:
        policy: name of the policy.
        time_s: simulated time at which it happened, seconds.
    """

    def __init__(self, policy: str, time_s: float, cause: BaseException) -> None:
        super().__init__(
            f"policy '{policy}' failed at {time_s:.9f} s of simulated time: "
            f"{type(cause).__name__}: {cause}"
        )
        self.policy = policy
        self.time_s = time_s
        self._cause = cause

    def __reduce__(self) -> tuple[type[PolicyError], tuple[object, ...]]:
        return (type(self), (self.policy, self.time_s, self._cause))
