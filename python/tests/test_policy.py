"""Schedulers and congestion controllers in Python."""

import traceback
from pathlib import Path
from typing import Any

import pytest

import tabane

TWO = tabane.Scenario(
    duration="20s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps", "delay": "30ms"}},
    flow=[{"bulk": "5MB"}],
)


class Fastest(tabane.Scheduler):
    """The smallest RTT that has space."""

    def select(
        self, work: tabane.Work, subflows: list[tabane.SubflowView]
    ) -> tabane.SubflowView | None:
        able = [s for s in subflows if s.usable and s.sendable > 0]
        return min(able, key=lambda s: s.srtt, default=None)


@tabane.register("window")
class Window(tabane.CongestionController):
    """A window of so many segments."""

    params = {"segments": (40.0, 1.0, 1000.0, "the window, segments")}

    def __init__(self, mss: int, cwnd: int, ssthresh: int | None, segments: float) -> None:
        super().__init__(mss, cwnd, ssthresh)
        self.segments = segments

    def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
        self.cwnd = self.segments * ack.mss

    def on_congestion(self, event: tabane.Congestion, siblings: list[tabane.SubflowView]) -> None:
        self.ssthresh = event.in_flight / 2


def test_a_scheduler_in_python_does_what_the_engines_own_does() -> None:
    # Without backups and failures minrtt is the same rule, if it is asked for each segment, too.
    each = {"defaults.mptcp.segments_per_mapping": 1}
    ours = tabane.run(TWO, set={"defaults.scheduler": Fastest, **each}, watch=False)
    theirs = tabane.run(TWO, set={"defaults.scheduler": "minrtt", **each}, watch=False)
    assert ours.json() == theirs.json()


def test_a_controller_keeps_the_window_that_it_sets() -> None:
    plain = tabane.Scenario(
        duration="20s",
        defaults={"congestion": "window:segments=10", "mptcp": False},
        link={"wifi": {"rate": "100Mbps", "delay": "50ms"}},
        flow=[{"bulk": "2MB"}],
    )
    result = tabane.run(plain)
    # Ten segments a round trip of 100 ms.
    assert result.flows["goodput_bps"][0] == pytest.approx(10 * 1448 * 8 / 0.1, rel=0.05)
    twice = tabane.run(plain, set={"defaults.congestion": "window:segments=20"}, watch=False)
    ratio = twice.flows["goodput_bps"][0] / result.flows["goodput_bps"][0]
    assert ratio == pytest.approx(2, rel=0.05)


def test_names_and_parameters_are_checked_as_the_engines_own() -> None:
    with pytest.raises(tabane.ScenarioError, match="did you mean 'window'"):
        tabane.run(TWO, set={"defaults.congestion": "windov"})
    with pytest.raises(tabane.ScenarioError, match="allowed is 1 to 1000"):
        tabane.run(TWO, set={"defaults.congestion": "window:segments=0"})
    with pytest.raises(ValueError, match="there is a scheduler 'minrtt' already"):
        tabane.register("minrtt")(Fastest)


def test_a_name_can_be_registered_again() -> None:
    def nothing_but(path: int) -> type[tabane.Scheduler]:
        class Only(tabane.Scheduler):
            def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int:
                return path

        return Only

    shares = []
    for path in (0, 1):
        tabane.register("only-one")(nothing_but(path))
        result = tabane.run(TWO, set={"defaults.scheduler": "only-one"}, watch=False)
        shares.append(list(result.paths["share"]))
    assert shares[0][0] > 0.95 and shares[1][0] < 0.05


def test_an_exception_ends_the_run_with_traceback_and_time(tmp_path: Path) -> None:
    class Breaks(tabane.Scheduler):
        def __init__(self) -> None:
            self.asked = 0

        def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int:
            self.asked += 1
            if self.asked == 100:
                raise KeyError("my own fault")
            return subflows[0].id

    with pytest.raises(tabane.PolicyError, match="my own fault") as caught:
        tabane.run(TWO, set={"defaults.scheduler": Breaks})
    error = caught.value
    assert isinstance(error.__cause__, KeyError)
    assert 0.0 < error.time_s < 2.0 and f"{error.time_s:.9f} s" in str(error)
    assert error.policy == "Breaks"
    text = "".join(traceback.format_exception(error))
    assert "in select" in text and 'raise KeyError("my own fault")' in text
    with pytest.raises(tabane.PolicyError, match="my own fault"):
        tabane.sweep(
            TWO, {"defaults.scheduler": [Breaks]}, seeds=[1, 2], progress=False, cache=tmp_path
        )
    # The thread is free of it.
    assert tabane.run(TWO, watch=False).flows["bytes"][0] == 5_000_000


def test_answers_that_name_no_subflow_are_errors_and_refused_ones_are_recorded() -> None:
    def answers(value: object) -> type[tabane.Scheduler]:
        class Odd(tabane.Scheduler):
            def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> Any:
                return value

        return Odd

    for value, message in (("x", "names no subflows"), (64, "no subflow 64"), (2.5, "names no")):
        with pytest.raises(tabane.PolicyError, match=message):
            tabane.run(TWO, set={"defaults.scheduler": answers(value)})
    result = tabane.run(TWO, set={"defaults.scheduler": answers([0, 40])})
    assert "policy_refused" in set(result.events["event"])
    assert result.flows["bytes"][0] == 5_000_000


def test_a_constructor_that_fails_is_told_and_so_is_a_wrong_class() -> None:
    class Fails(tabane.CongestionController):
        def __init__(self, mss: int, cwnd: int, ssthresh: int | None) -> None:
            raise RuntimeError("not today")

    with pytest.raises(tabane.PolicyError, match="not today"):
        tabane.run(TWO, set={"defaults.congestion": Fails})

    class Shrinks(Window):
        params = {}

        def __init__(self, mss: int, cwnd: int, ssthresh: int | None) -> None:
            super().__init__(mss, cwnd, ssthresh, 0.0)

        def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
            self.cwnd = -1.0

    with pytest.raises(tabane.PolicyError, match=r"cwnd is -1"):
        tabane.run(TWO, set={"defaults.congestion": Shrinks})


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_goes_out_as_it_is(ends: type[BaseException], tmp_path: Path) -> None:
    class Ends(tabane.Scheduler):
        def select(self, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int:
            raise ends("now")

    over = {"defaults.scheduler": Ends}
    with pytest.raises(ends, match="now"):
        tabane.run(TWO, set=over)
    with pytest.raises(ends, match="now"):
        tabane.sweep(TWO, {"defaults.scheduler": [Ends]}, progress=False, cache=tmp_path)
