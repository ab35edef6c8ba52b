"""Policies in Python: schedulers and congestion controllers for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from tabane import _fingerprint, _native
from tabane._native import Ack, Blocked, Congestion, SubflowView, Work

#: What a scheduler answers: nothing, one subflow, or several; each as a view or its ``id``.
Chosen = SubflowView | int | Iterable[SubflowView | int] | None

_Policy = TypeVar("_Policy", bound="type[Scheduler] | type[CongestionController]")
_REGISTERED: dict[str, Any] = {}


class Scheduler:
    """Decides which subflow carries data: subclass it and write `select`.

    ::

        class Fastest(tabane.Scheduler):
            def select(self, work, subflows):
                able = [s for s in subflows if s.usable and s.sendable > 0]
                return min(able, key=lambda s: s.srtt, default=None)

        tabane.run(scenario, set={"defaults.scheduler": Fastest})

    The class stands wherever a scheduler's name does in `set` and in scenarios built in Python;
    `register` gives it a name for files. One object is made for each connection.

    The engine checks every answer: a subflow without space is refused and recorded
    (``policy_refused``), and a policy never stops a connection. An exception ends the run with
    `PolicyError`.
    """

    params: ClassVar[Mapping[str, tuple[float, float, float, str]]] = {}
    """Parameters: default, lowest, highest and meaning, by name. They are given to ``__init__``."""

    version: ClassVar[str | None] = None
    """Stands for all that the class depends on, when a sweep looks for results that were kept.

    Another text is another policy. Without one, the code and what it refers to are compared.
    """

    def select(self, work: Work, subflows: list[SubflowView]) -> Chosen:
        """Returns the subflows that get this work now.

        Several: a copy on each. ``None`` or nothing: hold it until something changes (an
        acknowledgement, a timer, a new subflow).
        """
        raise NotImplementedError

    def opportunistic_retransmission(
        self, blocked: Blocked, subflows: list[SubflowView]
    ) -> tuple[Chosen, Chosen]:
        """Returns who sends blocked data again, and whose windows are halved. Neither by default.

        `blocked` stalls the connection although a subflow has space.
        """
        return (None, None)

    def replicas(self, subflows: list[SubflowView]) -> Chosen:
        """Returns the subflows that shall each carry every byte; none by default."""
        return None

    def gap(self) -> int:
        """Returns how far after ``work.dsn`` the data begins that the chosen subflow carries.

        Bytes; 0 by default. Asked after each `select` of new data.
        """
        return 0


class CongestionController:
    """Decides how many bytes may be in flight on one subflow.

    Subclass it, write `on_ack` and `on_congestion`, and change `cwnd`, `ssthresh` and
    `pacing_rate`, which the engine reads after each call. One object is made for each subflow. ::

        class Fixed(tabane.CongestionController):
            def on_ack(self, ack, siblings):
                self.cwnd = 40 * ack.mss

            def on_congestion(self, event, siblings):
                pass

    Attributes:
        mss: payload of a full segment, bytes.
        cwnd: congestion window, bytes; what is less than a segment counts as one.
        ssthresh: slow start threshold, bytes; ``None`` before the first loss.
        pacing_rate: bytes per second; ``None`` if it does not pace.
    """

    params: ClassVar[Mapping[str, tuple[float, float, float, str]]] = {}
    """Parameters: default, lowest, highest and meaning, by name. They are given to ``__init__``."""

    version: ClassVar[str | None] = None
    """Stands for all that the class depends on, when a sweep looks for results that were kept.

    Another text is another policy. Without one, the code and what it refers to are compared.
    """

    def __init__(self, mss: int, cwnd: int, ssthresh: int | None) -> None:
        """Starts from a window; after a live change of controller, from the old one's."""
        self.mss = mss
        self.cwnd: float = cwnd
        self.ssthresh: float | None = ssthresh
        self.pacing_rate: float | None = None

    def on_ack(self, ack: Ack, siblings: list[SubflowView]) -> None:
        """Data was newly delivered. `siblings` are all subflows if there are several."""
        raise NotImplementedError

    def on_congestion(self, event: Congestion, siblings: list[SubflowView]) -> None:
        """A loss, a timeout or an ECN echo (``event.kind``: ``loss``, ``rto``, ``ecn``)."""
        raise NotImplementedError

    def on_sent(self, now: float, bytes: int, in_flight: int) -> None:
        """Bytes left at a time in seconds; `in_flight` includes them."""

    def on_spurious(self, now: float) -> None:
        """The last congestion signal was spurious: restore what was before it."""

    def on_idle_restart(self, now: float, restart: int) -> None:
        """Nothing was in flight for longer than a timeout; `restart` is min(initial, cwnd)."""

    def on_penalty(self) -> None:
        """The scheduler penalises this subflow: halve the window without a congestion event."""

    def on_mss(self, mss: int) -> None:
        """The segment size changed, bytes."""
        self.mss = mss


def register(name: str) -> Callable[[_Policy], _Policy]:
    """Gives a policy a name, by which scenario files and `set` can use it. A decorator.

    A name stays for the life of the process; to register another class under it replaces the
    class (its `params` must be the same).

    Args:
        name: letters, digits, ``-`` and ``_``; ``"name:parameter=value"`` sets parameters.

    Raises:
        ValueError: the name is taken by a policy of the engine, or is none.
    """

    def decorate(policy: _Policy) -> _Policy:
        kind = "scheduler" if issubclass(policy, Scheduler) else "congestion"
        summary = (policy.__doc__ or "").strip().partition("\n")[0]
        params = [(key, *value) for key, value in policy.params.items()]
        _native.register(kind, name, summary, params, policy)
        _REGISTERED[name] = policy
        return policy

    return decorate


def name_of(value: object) -> str | None:
    """Returns the name of a policy class, which is registered if it is not yet."""
    if not (isinstance(value, type) and issubclass(value, Scheduler | CongestionController)):
        return None
    for name, policy in _REGISTERED.items():
        if policy is value:
            return name
    name = value.__name__
    taken = 1
    while name in _REGISTERED:
        taken += 1
        name = f"{value.__name__}-{taken}"
    register(name)(value)
    return name


def in_python(scenario: str) -> list[str]:
    """Returns the names of policies in Python that a scenario's text has, as quoted words."""
    return [
        name for name in sorted(_REGISTERED) if f'"{name}"' in scenario or f'"{name}:' in scenario
    ]


def classes_in(scenario: str) -> dict[str, type[Scheduler] | type[CongestionController]]:
    """Returns the policies in Python that a scenario's text has, by name."""
    return {name: _REGISTERED[name] for name in in_python(scenario)}


def adopt(policies: Mapping[str, type[Scheduler] | type[CongestionController]]) -> None:
    """Registers policies that came with a scenario from another process."""
    for name, policy in policies.items():
        if name not in _REGISTERED:
            register(name)(policy)
        elif _REGISTERED[name] is not policy:
            raise ValueError(f"policy '{name}' is another class here: rename one of them")


def fingerprint(name: str) -> str:
    """Returns a hash of the policy in Python that has a name, and of all that it depends on.

    Raises:
        UnknownError: it depends on something that has none.
    """
    return _fingerprint.of(_REGISTERED[name])
