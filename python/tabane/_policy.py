"""Policies in Python: schedulers and congestion controllers for the engine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from tabane import _fingerprint, _native
from tabane._native import Ack, Blocked, Congestion, SubflowView, Work

#: What a scheduler answers: nothing, one subflow, or several; each as a view or its ``id``.
Chosen = SubflowView | int | Iterable[SubflowView | int] | None

_Policy = TypeVar("_Policy", bound="type[Scheduler] | type[CongestionController]")
#: Kind and name: a scheduler and a controller may have the same.
Key = tuple[str, str]
_REGISTERED: dict[Key, Any] = {}
#: Names that nobody chose, of classes that stand where a name would; what each is made from.
_DERIVED: dict[Key, str] = {}


class Scheduler:
    """Decides which subflow carries data: subclass it and write `select`.

    ::

        class Fastest(tabane.Scheduler):
            def select(self, work, subflows):
                able = [s for s in subflows if s.usable and s.sendable > 0]
                return min(able, key=lambda s: s.srtt, default=None)

        tabane.run(scenario, set={"defaults.scheduler": Fastest})

    The class stands wherever a scheduler's name does in `set` and in scenarios built in Python;
    `register` gives it a name for files. Each end of a connection has an object of its own, of
    which the sender's is asked; others are made to check the scenario.

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
    `pacing_rate`, which the engine reads after each call. Each end of a subflow has an object of
    its own; others are made to check the scenario. ::

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
        kind = _kind(policy)
        summary = (policy.__doc__ or "").strip().partition("\n")[0]
        params = [(key, *value) for key, value in policy.params.items()]
        _native.register(kind, name, summary, params, policy)
        _REGISTERED[kind, name] = policy
        _DERIVED.pop((kind, name), None)
        return policy

    return decorate


def _kind(policy: type) -> str:
    return "scheduler" if issubclass(policy, Scheduler) else "congestion"


def name_of(value: object) -> str | None:
    """Returns the name of a policy class, which is registered if it is not yet.

    The name is the class's for as long as no other is registered under it: who keeps a class asks
    again before each use.
    """
    if not (isinstance(value, type) and issubclass(value, Scheduler | CongestionController)):
        return None
    for (_, name), policy in list(_REGISTERED.items()):
        if policy is value:
            return name
    kind = _kind(value)
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", value.__name__) or "policy"
    name = _free(kind, stem)
    try:
        register(name)(value)
    except ValueError as error:
        if not str(error).endswith(" already"):
            raise
        # It is the name of a policy of the engine.
        stem = f"own-{stem}"
        name = _free(kind, stem)
        register(name)(value)
    _DERIVED[kind, name] = stem
    return name


def _free(kind: str, stem: str) -> str:
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    return next(name for name in names if (kind, name) not in _REGISTERED)


def label_of(value: object) -> str | None:
    """Returns how tables call a policy class: by the name it was given, or else without a number.

    So a class that was defined anew is called as the one before it; others may be, too.
    """
    name = name_of(value)
    if name is None or not isinstance(value, type):
        return None
    return _DERIVED.get((_kind(value), name), name)


def in_python(scenario: str) -> list[Key]:
    """Returns the policies in Python that a scenario's text may mean: its quoted words."""
    # Whether a word is a scheduler, its place alone says: both, if there are two.
    return [
        (kind, name)
        for kind, name in sorted(_REGISTERED)
        if re.search(rf"""["']{name}["':]""", scenario)
    ]


def classes_in(scenario: str) -> dict[Key, type[Scheduler] | type[CongestionController]]:
    """Returns the policies in Python that a scenario's text may mean."""
    return {key: _REGISTERED[key] for key in in_python(scenario)}


def adopt(policies: Mapping[Key, type[Scheduler] | type[CongestionController]]) -> None:
    """Registers policies that came with a scenario from another process."""
    for key, policy in policies.items():
        if key not in _REGISTERED:
            register(key[1])(policy)
        elif _REGISTERED[key] is not policy:
            raise ValueError(f"policy '{key[1]}' is another class here: rename one of them")


def fingerprint(key: Key) -> str:
    """Returns a hash of a policy in Python, and of all that it depends on.

    Raises:
        UnknownError: it depends on something that has none.
    """
    return _fingerprint.of(_REGISTERED[key])


def by_content(scenario: str, hashes: Mapping[Key, str]) -> str:
    """Returns a scenario's text with hashes in place of the names of policies.

    Under which name a class is registered is chance: after it was defined anew, another.
    """
    for (kind, name), found in hashes.items():
        scenario = re.sub(rf'\b{kind} = "{name}(?=[":])', f'{kind} = "{found}', scenario)
    return scenario
