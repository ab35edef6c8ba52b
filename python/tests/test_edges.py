"""The edges of the package: what means the same, what is kept, and what is refused."""

import enum
import os
import pickle
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sweep import window_of

import tabane

TWO = tabane.Scenario(
    duration="2s",
    link={"wifi": {"rate": "10Mbps", "delay": "10ms"}, "lte": {"rate": "5Mbps", "delay": "30ms"}},
    flow=[{"bulk": "200kB"}],
)


def swept(over: dict[str, Any], cache: Any = False, **more: Any) -> tabane.Sweep:
    return tabane.sweep(TWO, over, progress=False, cache=cache, **more)


def goodput(scenario: tabane.Scenario, **more: Any) -> float:
    return float(tabane.run(scenario, watch=False, **more).flows["goodput_bps"][0])


def kept(folder: Path) -> int:
    return len(list(folder.rglob("*.json")))


def only(path: int, called: str = "OnlyPath", **more: Any) -> type[tabane.Scheduler]:
    """A class of always the same name that sends on one path."""

    def select(self: object, work: tabane.Work, subflows: list[tabane.SubflowView]) -> int:
        return path

    return type(called, (tabane.Scheduler,), {"select": select, **more})


def test_a_scheduler_and_a_controller_may_have_one_name(tmp_path: Path) -> None:
    over = {"defaults.scheduler": ["shared"], "defaults.congestion": ["shared"]}
    found = set()
    for path, segments in ((0, 4), (1, 4), (1, 8)):
        tabane.register("shared")(only(path))
        tabane.register("shared")(window_of(segments))
        found.add(float(swept(over, tmp_path).flows["goodput_bps"][0]))
    assert len(found) == kept(tmp_path) == 3
    for first in (only(0), window_of(4)):
        tabane.register("shared")(first)
    text = tabane.Scenario.parse('defaults = { scheduler = "shared" }')
    assert len(text.__getstate__()["policies"]) == 2


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("link.lte.loss", [0, *np.linspace(0, 0.02, 2)]),
        ("link.lte.loss", ["2%", 0.02]),
        ("link.lte.delay", ["20ms", "0.02s"]),
    ],
)
def test_what_means_the_same_is_refused(key: str, values: list[Any]) -> None:
    with pytest.raises(tabane.ScenarioError, match=rf"^{key}: .* are the same\n.*once"):
        swept({key: values, "defaults.scheduler": ["minrtt", "necf"]}, seeds=[1, 2])


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


def test_seeds_have_64_bits() -> None:
    large = [1, 2**63, 2**64 - 1]
    table = swept({}, seeds=large)
    assert list(table.flows["seed"]) == large and table.flows["seed"].dtype == np.uint64
    assert list(swept({"seed": large}).flows["seed"]) == large
    assert swept({}, seeds=[1]).flows["seed"].dtype == np.int64
    result = tabane.run(TWO, seed=2**63, watch=False)
    assert result.seed == 2**63 == tabane.run(result.scenario, watch=False).seed
    with pytest.raises(tabane.ScenarioError, match=r"^seed: .* out of range\n.*larger seeds"):
        tabane.Scenario(seed=2**63)
    with pytest.raises(tabane.ScenarioError, match=r"^seed\.1: .* out of range\n.*larger seeds"):
        tabane.Scenario(seed=[1, 2**63])
    with pytest.raises(tabane.ScenarioError, match=r"^flow\.0\.count: .* out of range\n"):
        TWO.flow(bulk="1MB").link("x").at("1s")._with("flow", []).flow(count=2**64)
    with pytest.raises(tabane.ScenarioError, match=r"^flow\.0\.count: .* out of range\n"):
        tabane.run(TWO, set={"flow.0.count": -(2**63) - 1})


def test_without_a_home_there_is_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for name in ("TABANE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert len(swept({}, False)) == len(swept({}, tmp_path)) == 1
    with pytest.raises(tabane.RunError, match=r"no home .*cache= or \$TABANE_CACHE, or .*=False"):
        swept({}, None)
    monkeypatch.setenv("TABANE_CACHE", str(tmp_path))
    assert len(swept({}, None)) == 1


def test_a_folder_that_takes_no_results_is_found_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it ran")

    (tmp_path / "file").write_text("")
    closed = tmp_path / "closed"
    with monkeypatch.context() as patched:
        patched.setattr("tabane._sweep._on_threads", never)
        with pytest.raises(tabane.RunError, match=r"file/.*: results cannot be kept .*cache=False"):
            swept({}, tmp_path / "file")
        # For root every folder is open.
        patched.setattr(os, "access", lambda *_: False)
        with pytest.raises(tabane.RunError, match=r"closed/.*Permission denied.*\$TABANE_CACHE"):
            swept({}, closed)
    swept({}, closed)
    with monkeypatch.context() as patched:
        # What is there can be read all the same.
        patched.setattr(os, "access", lambda *_: False)
        assert len(swept({}, closed)) == 1


def test_what_is_kept_can_be_shared_and_damage_is_named(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        swept({}, tmp_path)
    finally:
        os.umask(before)
    (file,) = tmp_path.rglob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o664 and len(list(file.parent.iterdir())) == 1
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(tabane.RunError, match=rf"^{file}: .*: delete the file$"):
        swept({}, tmp_path)


@tabane.register("quoted")
class Quoted(tabane.Scheduler):
    def select(
        self, work: tabane.Work, subflows: list[tabane.SubflowView]
    ) -> tabane.SubflowView | None:
        return next((s for s in subflows if s.usable and s.sendable > 0), None)


@pytest.mark.parametrize("quoted", ["'quoted'", '"quoted"', "'''quoted'''"])
def test_a_text_takes_its_policies_along_however_it_quotes_them(quoted: str) -> None:
    text = tabane.Scenario.parse(f"defaults = {{ scheduler = {quoted} }}\n" + TWO.toml)
    packed = pickle.loads(pickle.dumps(text))
    assert list(text.__getstate__()["policies"].values()) == [Quoted]
    assert goodput(packed) == goodput(text)


def test_a_scenario_runs_the_class_that_it_was_built_with() -> None:
    keys = TWO._keys or {}
    mine = tabane.register("mine")(only(0))
    used, unused = (tabane.Scenario(**keys, defaults={"scheduler": mine}) for _ in range(2))
    before = goodput(used)
    tabane.register("mine")(only(1))
    assert (
        goodput(used)
        == goodput(unused)
        == before
        != goodput(TWO, set={"defaults.scheduler": "mine"})
    )
    # Two that differ in nothing but what they close over, both at once.
    both = {"host.server.scheduler": only(0), "host.client.scheduler": only(1)}
    assert goodput(TWO, set=both) == before


def test_a_class_that_is_defined_again_is_the_same_policy(tmp_path: Path) -> None:
    tables = []
    for _ in range(3):
        again = only(0, "Again", version="1")
        table = swept({"defaults.scheduler": [again]}, tmp_path).flows
        assert list(table["defaults.scheduler"]) == ["Again"]
        tables.append(repr(table))
        swept({}, tmp_path, set={"defaults.scheduler": again, "link.lte.loss": "1%"})
    assert len(set(tables)) == 1 and kept(tmp_path) == 2
    swept({"defaults.scheduler": [only(1, "Again", version="2")]}, tmp_path)
    assert kept(tmp_path) == 3
    # Where two are to be told apart, they are; which host has which counts.
    two = [only(0, "Again"), only(1, "Again")]
    assert len(set(swept({"defaults.scheduler": two}).flows["defaults.scheduler"])) == 2
    for server, client in (two, two[::-1]):
        hosts = {"host.server.scheduler": server, "host.client.scheduler": client}
        there = swept({}, tmp_path, set=hosts).flows["goodput_bps"][0]
        assert there == goodput(TWO, set=hosts)
    assert kept(tmp_path) == 5


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
    nothing: Any = None
    raw: Any = b"wifi"
    for build, place in (
        (lambda: tabane.Scenario(name=half), "name: .* half a character"),
        (lambda: TWO.link(half, rate="1Mbps"), "link: .* half a character"),
        (lambda: tabane.run(TWO, set={"name": half}), "name: .* half a character"),
        (lambda: tabane.Scenario.parse(half), "scenario: .* half a character"),
        (lambda: tabane.Scenario.parse(nothing), "scenario: None is no text"),
        (lambda: tabane.Scenario.parse("", half), "name: .* half a character"),
        (lambda: tabane.Scenario.parse("", files={"a": half}), r"files\.a: .* half a character"),
        (lambda: tabane.Scenario(**{half: 1}), "scenario: .* half a character"),
        (lambda: TWO.path("p", raw), r"path\.p\.links: a scenario cannot hold b'wifi'"),
        (lambda: TWO.link("x", loss=Decimal("sNaN")), "link.x.loss: sNaN is no value"),
        (lambda: TWO.path("p", "wifi"), r"path\.p\.links: .*is one name\n.*\['wifi'\]"),
    ):
        with pytest.raises(tabane.ScenarioError, match=f"^{place}"):
            build()


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Größe", "Gr_e"),
        ("minrtt", "own-minrtt"),
        ("agent", "own-agent"),
        ("数据", "_"),
        ("two words", "two_words"),
        ("", "policy"),
    ],
)
def test_a_class_stands_for_a_name_whatever_it_is_called(name: str, label: str) -> None:
    policy = only(0, name)
    assert goodput(TWO, set={"defaults.scheduler": policy}) == goodput(
        TWO, set={"defaults.scheduler": only(0)}
    )
    for again in (policy, only(0, name)):
        table = swept({"defaults.scheduler": [again]})
        assert table.axes["defaults.scheduler"] == [again]
        assert list(table.flows["defaults.scheduler"]) == [label]


def test_a_class_with_wrong_parameters_is_still_an_error() -> None:
    wrong = only(0, "Wrong", params={"x": (5.0, 0.0, 1.0, "too much")})
    with pytest.raises(ValueError, match="default of parameter 'x' is out of its range"):
        tabane.run(TWO, set={"defaults.scheduler": wrong})


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


def test_types_allow_what_is_promised(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")
    policy = docs.partition("## Policies\n\n```python\n")[2].partition("```")[0]
    (tmp_path / "user.py").write_text(f"""
from decimal import Decimal
from pathlib import Path

import numpy as np

import tabane

scenario = tabane.Scenario()
{policy}
tabane.run(scenario, seed=np.int64(1), set={{"a": np.float32(1), "b": Decimal(1), "c": Path("x")}})
tabane.sweep(scenario, {{"a": np.linspace(0, 1), "b": (n for n in "ab")}}, seeds=np.arange(3))
tabane.sweep(scenario, {{"a": np.linspace(0, 1), "b": [Fastest]}}, seeds=[np.int64(1)])
""")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "user.py"]
    # From where the package is a file of its own, mypy has to be told.
    root = Path(tabane.__file__).parents[1]
    path = {} if "site-packages" in str(root) else {"MYPYPATH": str(root)}
    environment = {**os.environ, **path}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
