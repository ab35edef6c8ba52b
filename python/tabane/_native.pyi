"""What the native half offers to the package; not for users."""

from pathlib import Path
from typing import Any, final

from typing_extensions import Self

__all__ = [
    "OBSERVATION",
    "Ack",
    "Blocked",
    "Congestion",
    "Document",
    "Envs",
    "Output",
    "Plan",
    "Pool",
    "Rows",
    "SubflowView",
    "Work",
    "__version__",
    "capture",
    "estimate_of",
    "papers",
    "read_pcap",
    "register",
    "repeat_paper",
    "run",
]
__version__: str
#: Version, numbers of the connection, numbers of a subflow.
OBSERVATION: tuple[str, int, int]
_Raw = dict[str, tuple[Any, Any]]

@final
class Document:
    def __new__(
        cls,
        name: str,
        text: str,
        sets: list[str],
        folder: str,
        files: list[tuple[str, str]],
    ) -> Self: ...
    @staticmethod
    def text_of(path: Path) -> str: ...
    @staticmethod
    def toml_of(json: str) -> str: ...
    def axes(self) -> list[tuple[str, list[str]]]: ...
    def plans(self) -> list[Plan]: ...

@final
class Plan:
    @property
    def params(self) -> list[tuple[str, str]]: ...
    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    def with_seed(self, seed: int) -> Plan: ...
    def late(self) -> list[str]: ...
    def toml(self) -> str: ...
    def traces(self) -> list[str]: ...
    def policy_files(self) -> list[str]: ...
    def policies(self) -> tuple[str, str, str]: ...

def run(plan: Plan, watch: bool, records: bool) -> Output: ...
def capture(plan: Plan, path: Path, place: str, snap: int) -> None: ...

@final
class Output:
    @property
    def events_lost(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def ended_s(self) -> float: ...
    @property
    def packet_hops(self) -> int: ...
    def json(self) -> str: ...
    def flows(self) -> _Raw: ...
    def paths(self) -> _Raw: ...
    def links(self) -> _Raw: ...
    def series(self) -> _Raw | None: ...
    def figures(self) -> _Raw: ...
    def events(self) -> _Raw | None: ...
    def lines(self) -> bytes | None: ...
    def reasons(self) -> list[str]: ...
    def files(self) -> list[tuple[str, str]]: ...

@final
class Pool:
    def __new__(cls, plans: list[Plan], threads: int) -> Self: ...
    def __iter__(self) -> Pool: ...
    def __next__(self) -> tuple[int, str]: ...
    def close(self) -> None: ...

@final
class Rows:
    def add(self, json: str) -> None: ...
    def flows(self) -> _Raw: ...
    def paths(self) -> _Raw: ...

def estimate_of(values: list[float]) -> tuple[float, float] | None: ...

@final
class SubflowView:
    """A subflow. Bytes are payload, times seconds, rates bytes per second."""

    @property
    def id(self) -> int:
        """Its number within the connection; answers name it."""
    @property
    def path(self) -> int:
        """Number of the path that has its local address."""
    @property
    def usable(self) -> bool:
        """Established and not closing: may carry data at all."""
    @property
    def backup(self) -> bool:
        """Low priority, asked for by either side."""
    @property
    def potentially_failed(self) -> bool:
        """Timeouts have gone unanswered, or its path is down."""
    @property
    def phase(self) -> str:
        """Loss recovery: `open`, `recovery` or `loss`."""
    @property
    def sendable(self) -> int:
        """Bytes that may leave now; 0 if not usable."""
    @property
    def cwnd(self) -> int:
        """Congestion window, bytes."""
    @property
    def ssthresh(self) -> int | None:
        """Slow start threshold, bytes; `None` before the first loss."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight (pipe of RFC 6675)."""
    @property
    def unacked(self) -> int:
        """Bytes bound and not yet acknowledged cumulatively; 1 while it opens: the SYN."""
    @property
    def oldest_sent(self) -> float:
        """When the oldest of them was last sent, seconds; infinite if there is none."""
    @property
    def mss(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT, seconds; 0 before the first sample."""
    @property
    def rttvar(self) -> float:
        """RTT variation (RFC 6298), seconds."""
    @property
    def latest_rtt(self) -> float:
        """Latest RTT sample, seconds."""
    @property
    def min_rtt(self) -> float:
        """Smallest sample of the last ten seconds or so, seconds."""
    @property
    def max_rtt(self) -> float:
        """Largest sample of the last ten seconds or so, seconds."""
    @property
    def pacing_rate(self) -> int:
        """Pacing rate or an estimate of it, bytes per second."""
    @property
    def delivery_rate(self) -> int:
        """Delivery rate estimate, bytes per second; 0 when unknown."""
    @property
    def capacity(self) -> int:
        """What the bottleneck forwards, as far as segments that waited there have shown, bytes per
        second; 0 when unknown.
        """
    @property
    def cross_traffic(self) -> bool:
        """Whether segments wait there behind what others send."""
    @property
    def loss_rate(self) -> float:
        """Share of bytes lost, of the last half thousand segments or so."""
    @property
    def loss_interval(self) -> int:
        """Bytes acknowledged since the last loss, or between the last two."""

@final
class Work:
    """Data to be placed."""

    @property
    def now(self) -> float:
        """When it is asked, seconds."""
    @property
    def dsn(self) -> int:
        """Data position of the first byte."""
    @property
    def len(self) -> int:
        """Bytes: at most a segment."""
    @property
    def unsent(self) -> int:
        """Bytes written and not yet bound to a subflow, this included."""
    @property
    def carried(self) -> list[int]:
        """Subflows that have carried it already, if it is a reinjection."""
    @property
    def reinjection(self) -> bool:
        """Whether it is a reinjection."""
    @property
    def window_space(self) -> int:
        """Bytes that the peer's window allows beyond what has been sent."""
    @property
    def window(self) -> int:
        """The peer's window beyond its acknowledgement, bytes."""

@final
class Blocked:
    """The oldest data not acknowledged at data level, when it blocks the connection."""

    @property
    def now(self) -> float:
        """When it is asked, seconds."""
    @property
    def dsn(self) -> int:
        """Data position of the first byte."""
    @property
    def carried(self) -> list[int]:
        """Subflows that have carried it."""
    @property
    def fast(self) -> int:
        """The subflow that has space but may carry no new data."""
    @property
    def window_full(self) -> bool:
        """Blocked by the peer's window rather than by the own send buffer."""

@final
class Ack:
    """An acknowledgement that delivers data."""

    @property
    def now(self) -> float:
        """When it arrived, seconds."""
    @property
    def subflow(self) -> int:
        """Number of the subflow."""
    @property
    def acked(self) -> int:
        """Bytes newly acknowledged cumulatively."""
    @property
    def delivered(self) -> int:
        """Bytes newly delivered, cumulatively or by SACK."""
    @property
    def rtt(self) -> float | None:
        """RTT sample, seconds, if there is one."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT after it, seconds."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT seen (windowed), seconds."""
    @property
    def reverse_delay(self) -> float:
        """By how much longer it was under way than the least seen, at least, seconds: zero unless
        the peer's timestamps tell, in milliseconds.
        """
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before it."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after it."""
    @property
    def mss(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def cwnd_limited(self) -> bool:
        """The window was what limited sending since the last one."""
    @property
    def phase(self) -> str:
        """Loss recovery: `open`, `recovery` or `loss`."""
    @property
    def snd_una(self) -> int:
        """First byte not acknowledged, a position."""
    @property
    def snd_nxt(self) -> int:
        """Next byte to send, a position."""
    @property
    def delivery_rate(self) -> int | None:
        """Delivery rate sample, bytes per second, if there is one."""
    @property
    def app_limited(self) -> bool:
        """The sample was limited by the application."""
    @property
    def capacity(self) -> int:
        """The bottleneck's rate by trains of segments, bytes per second; 0 if not known."""
    @property
    def lost(self) -> int:
        """Bytes newly marked lost since the last one."""

@final
class Congestion:
    """A congestion signal."""

    @property
    def now(self) -> float:
        """When it was seen, seconds."""
    @property
    def subflow(self) -> int:
        """Number of the subflow."""
    @property
    def kind(self) -> str:
        """`loss`, `rto` or `ecn`."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight when it happened."""
    @property
    def mss(self) -> int:
        """Payload of a full segment, bytes."""
    @property
    def snd_nxt(self) -> int:
        """Next byte to send, a position."""

def register(
    kind: str,
    name: str,
    summary: str,
    params: list[tuple[str, float, float, float, str]],
    factory: Any,
) -> None: ...

_Stepped = tuple[bytes, bytes, bytes, bytes]

@final
class Envs:
    @staticmethod
    def schedulers(plans: list[Plan], count: int, threads: int, subflows: int) -> Envs: ...
    @staticmethod
    def controllers(
        plans: list[Plan],
        count: int,
        threads: int,
        every: int,
        loss_weight: float,
        delay_weight: float,
    ) -> Envs: ...
    @property
    def width(self) -> int: ...
    def reset(self, seed: int | None) -> _Stepped: ...
    def step(self, actions: bytes) -> _Stepped: ...
    def step_one(self, action: int) -> tuple[bytes, float, bool, bool, float]: ...
    def close(self) -> None: ...

def read_pcap(path: Path) -> tuple[str, _Raw]: ...
def papers() -> list[tuple[str, str, str, str]]: ...
def repeat_paper(
    name: str,
    quick: bool,
    seed: int,
    sets: list[str],
    jobs: int,
    folder: Path | None,
) -> str: ...
