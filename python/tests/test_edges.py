"""The edges of the package: what is kept, what is refused, and what stays."""

import enum
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabane

TWO = tabane.Scenario(
    duration="2s",
    link={"wifi": {"rate": "10Mbps", "delay": "10ms"}, "lte": {"rate": "5Mbps", "delay": "30ms"}},
    flow=[{"bulk": "200kB"}],
)


def swept(over: dict[str, Any], cache: Any = False, **more: Any) -> tabane.Sweep:
    return tabane.sweep(TWO, over, progress=False, cache=cache, **more)


def kept(folder: Path) -> int:
    return len(list(folder.rglob("*.json")))


class Noted(np.ndarray[Any, Any]):
    """An array with more than numbers."""


class Pace(enum.Enum):
    SLOW = 4
    FAST = 8

    def segments(self) -> int:
        return self.value * FACTOR


FACTOR = 1
MASKED = np.ma.masked_array([4, 8], mask=[False, True])
NOTED = np.arange(2).view(Noted)


class Reading(tabane.CongestionController):
    """Sets its window by what `segments` reads."""

    def segments(self) -> int:
        return 4

    def on_ack(self, ack: tabane.Ack, siblings: list[tabane.SubflowView]) -> None:
        self.cwnd = self.segments() * ack.mss

    def on_congestion(self, event: tabane.Congestion, siblings: list[tabane.SubflowView]) -> None:
        pass


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda self: int(MASKED.sum()), "MASKED is of type MaskedArray"),
        (lambda self: len(NOTED), "NOTED is of type Noted"),
        (lambda self: len(self.__doc__), "reads __doc__"),
        (lambda self: len(self.__annotations__) + 4, "reads __annotations__"),
        (lambda self: self.on_ack.__func__.__globals__["FACTOR"], "reads __globals__"),
        (lambda self: sys.modules[__name__].FACTOR, "reads sys.modules"),
    ],
)
def test_what_a_hash_would_not_see_is_not_kept(read: Any, why: str, tmp_path: Path) -> None:
    policy = type(
        "ReadingMore", (Reading,), {"segments": read, "__annotations__": {}, "__doc__": "x"}
    )
    with pytest.warns(UserWarning, match=f"are not kept: .*{why}"):
        swept({"defaults.congestion": [policy]}, tmp_path)
    assert kept(tmp_path) == 0


def test_a_member_of_an_enumeration_is_another_with_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paced(pace: Pace) -> type[Reading]:
        return type("Paced", (Reading,), {"segments": lambda self: pace.segments()})

    over = {"defaults.congestion": [paced(Pace.SLOW)]}
    before = swept(over, tmp_path).flows["goodput_bps"][0]
    assert swept(over, tmp_path).flows["goodput_bps"][0] == before and kept(tmp_path) == 1
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2)
    assert swept(over, tmp_path).flows["goodput_bps"][0] == swept(over).flows["goodput_bps"][0]
    assert kept(tmp_path) == 2


def test_files_stay_with_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'duration = "1s"\nlink = { lte = { trace = "x.trace", delay = "5ms" } }\n'
        'flow = [{ bulk = "10kB" }]\n'
    )
    first = tabane.run(tabane.Scenario.parse(text, files={"x.trace": "1\n2\n3\n"}))
    assert tabane.run(first.scenario).json() == first.json()
    (tmp_path / "s.toml").write_text(text)
    (tmp_path / "x.trace").write_text("1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    read = tabane.Scenario.read("s.toml")
    # As the command line says it.
    assert 'trace = "x.trace"' in tabane.run(read).scenario.toml
    monkeypatch.chdir("/")
    assert tabane.run(read).flows["bytes"][0] == 10_000


def test_a_seed_takes_the_place_of_those_of_the_scenario() -> None:
    many = tabane.Scenario(**{**(TWO._keys or {}), "seed": [1, 2]})
    assert tabane.run(many, seed=5).json() == tabane.run(TWO, seed=5).json()
    with pytest.raises(tabane.ScenarioError, match=r"a sweep of 2 runs.*\n.*one value for: seed"):
        tabane.run(many)


@pytest.mark.parametrize("name", [None, float("nan"), True, b"x", ("a", 1)])
def test_a_name_is_a_text(name: Any) -> None:
    for build in (
        lambda: TWO.link(name, rate="1Mbps"),
        lambda: TWO.path(name, ["wifi"]),
        lambda: tabane.Scenario(link={name: {"rate": "1Mbps"}}),
        lambda: tabane.run(TWO, set={name: "1"}),
    ):
        with pytest.raises(tabane.ScenarioError, match=r"is no name\n.*write str"):
            build()


def test_what_no_file_can_hold_names_the_place_and_the_remedy() -> None:
    half = "\ud800"
    for build, place in (
        (lambda: tabane.Scenario(name=half), "name: .* half a character"),
        (lambda: TWO.link(half, rate="1Mbps"), "link: .* half a character"),
        (lambda: tabane.run(TWO, set={"name": half}), "name: .* half a character"),
        (lambda: tabane.Scenario.parse(half), "scenario: .* half a character"),
        (lambda: tabane.Scenario.parse(None), "scenario: None is no text"),  # type: ignore[arg-type]
        (lambda: TWO.link("x", loss=Decimal("sNaN")), "link.x.loss: sNaN is no value"),
        (lambda: TWO.path("p", "wifi"), r"path\.p\.links: .*is one name\n.*\['wifi'\]"),
    ):
        with pytest.raises(tabane.ScenarioError, match=f"^{place}"):
            build()


def test_columns_are_read_only_and_a_folder_is_no_file(tmp_path: Path) -> None:
    own = np.arange(2)
    tables = [tabane.run(TWO).flows, swept({}).flows, tabane.Table({"own": own})]
    for column in (column for table in tables for column in table.values()):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[-1]
    own[0] = 5
    for read in (tabane.read_pcap, tabane.Scenario.read):
        with pytest.raises(IsADirectoryError, match=str(tmp_path)):
            read(tmp_path)
