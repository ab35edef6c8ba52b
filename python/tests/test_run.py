"""Scenarios, runs and their results; the same bytes as the command line."""

import json
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import tabane

ROOT = Path(__file__).parents[2]
FILE = ROOT / "scenarios" / "wifi-lte.toml"
TWO = tabane.Scenario(
    duration="10s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms"}, "lte": {"rate": "10Mbps", "delay": "30ms"}},
    flow=[{"bulk": "5MB"}],
)


def binary() -> Path:
    found = os.environ.get("TABANE_BINARY", "")
    if not found:
        if os.environ.get("CI") == "true":
            pytest.fail("TABANE_BINARY is not set")
        pytest.skip("SKIPPED: TABANE_BINARY names no tabane to compare with")
    return Path(found)


def test_a_run_gives_the_same_bytes_as_the_command_line(tmp_path: Path) -> None:
    args = ["--seed", "3", "--set", "link.lte.loss=1%", "--records", "--pcap", "client"]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    command = [binary(), "sim", "run", FILE, *args, "--json", "--out", theirs]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = tabane.run(FILE, seed=3, set={"link.lte.loss": "1%"}, records=True)
    result.write(ours)
    result.pcap(ours / "client.pcapng")
    names = sorted(path.name for path in ours.iterdir())
    assert names == sorted(path.name for path in theirs.iterdir())
    assert len(names) > 8
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    same = [json.loads(text) for text in (printed, result.json())]
    for document in same:
        document["cost"] = document["cost"]["packet_hops"]
    assert same[0] == same[1]


def test_the_same_seed_gives_the_same_result_and_another_does_not() -> None:
    lossy = TWO.link("wifi", rate="30Mbps", delay="10ms", loss="1%")
    first, again, other = (tabane.run(lossy, seed=seed) for seed in (1, 1, 2))
    assert first.json() == again.json() != other.json()


def test_a_scenario_built_in_python_is_that_of_the_text() -> None:
    built = (
        tabane.Scenario(duration="10s")
        .link("wifi", rate="30Mbps", delay="10ms")
        .link("lte", rate="10Mbps", delay="30ms")
        .flow(bulk="5MB")
    )
    text = tabane.Scenario.parse(built.toml)
    assert tabane.run(built).json() == tabane.run(text).json() == tabane.run(TWO).json()
    via = (
        TWO.path("w", ["wifi"]).path("l", ["lte"], from_="client").flow(bulk="1MB", from_="client")
    )
    assert len(tabane.run(via.at("1s", down="wifi"), watch=False).flows) == 2


def test_tables_have_the_columns_that_they_say() -> None:
    result = tabane.run(TWO)
    flows, paths = result.flows, result.paths
    assert list(flows["bytes"]) == [5_000_000]
    assert flows["goodput_bps"].dtype == np.float64
    assert sorted(paths["path"]) == ["lte", "wifi"]
    assert paths["share"].sum() == pytest.approx(1.0)
    assert result.links["packets"].sum() > 3_000
    goodput = result.series_of("goodput_bps", subflow=-1)
    assert np.all(np.diff(goodput["t"]) > 0)
    assert goodput["value"].max() > 25e6
    assert {"connection", "subflow", "completed"} <= set(result.events["event"])
    assert "sent" not in set(result.events["event"])
    with pytest.raises(KeyError, match=r"metrics are: .*cwnd_bytes"):
        result.series_of("cwmd_bytes")


def test_frames_are_made_on_demand() -> None:
    result = tabane.run(TWO, records=True)
    for table in (result.flows, result.paths, result.links, result.series, result.events):
        pandas, polars = table.pandas(), table.polars()
        assert list(pandas.columns) == polars.columns == list(table)
        assert len(pandas) == len(polars) == len(table) > 0
    assert "sent" in set(result.events["event"])


def test_a_notebook_shows_tables_without_pandas() -> None:
    table = tabane.Table({"name": np.array(["<a>", "b"] * 5, dtype=object), "n": np.arange(10)})
    html = table._repr_html_()
    assert html.startswith("<table><thead><tr><th>name</th><th>n</th></tr></thead>")
    assert html.count("<tr>") == 9 and "<td>&lt;a&gt;</td><td>0</td>" in html
    assert html.endswith("<p>... 10 rows</p>")


def test_without_watching_there_are_no_series() -> None:
    result = tabane.run(TWO, watch=False)
    assert result.json() == tabane.run(TWO).json()
    with pytest.raises(tabane.RunError, match="watch=True"):
        _ = result.series


def test_faults_name_the_place_and_the_remedy() -> None:
    text = '[link.wifi]\nrate = "30Mbps"\ndelai = "10ms"\n[[flow]]\nbulk = "1MB"\n'
    with pytest.raises(tabane.ScenarioError) as caught:
        tabane.Scenario.parse(text, "mine.toml").check()
    error = caught.value
    assert (error.file, error.line) == ("mine.toml", 3)
    assert "mine.toml:3" in str(error) and "did you mean 'delay'" in str(error)
    with pytest.raises(tabane.ScenarioError, match="there is no link 'wfi'"):
        tabane.run(TWO, set={"link.wfi.rate": "1Mbps"})
    with pytest.raises(tabane.ScenarioError, match=r"tabane\.sweep.*link\.wifi\.rate"):
        tabane.run(TWO, set={"link.wifi.rate": ["1Mbps", "2Mbps"]})
    with pytest.raises(tabane.ScenarioError, match="unknown scheduler"):
        tabane.run(TWO, set={"defaults.scheduler": "minrt"})
    with pytest.raises(FileNotFoundError, match=r"none\.toml'"):
        tabane.run("none.toml")


def test_what_comes_when_the_run_is_over_is_warned_of() -> None:
    late = TWO.flow(name="late", start="10s", bulk="1MB")
    for call in (late.check, lambda: tabane.run(late), lambda: tabane.sweep(late, cache=False)):
        with pytest.warns(UserWarning, match="'late' starts at 10s, when the run is over") as told:
            call()
        assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tabane.run(TWO)


def test_a_capture_of_nothing_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(tabane.RunError, match="hosts and links are: client, server, wifi, lte"):
        tabane.run(TWO).pcap(tmp_path / "x.pcapng", at="clinet")
    assert not (tmp_path / "x.pcapng").exists()
    (tmp_path / "mine.pcapng").write_bytes(b"a capture of before")
    with pytest.raises(tabane.RunError, match="nothing to capture is called 'clinet'"):
        tabane.run(TWO).pcap(tmp_path / "mine.pcapng", at="clinet")
    assert (tmp_path / "mine.pcapng").read_bytes() == b"a capture of before"
    with pytest.raises(FileNotFoundError, match=r"none/x\.pcapng'"):
        tabane.run(TWO).pcap(tmp_path / "none" / "x.pcapng")


def test_plots_are_drawn(tmp_path: Path) -> None:
    result = tabane.run(TWO)
    for metric in ("goodput_bps", "cwnd_bytes", "srtt_s"):
        result.plot(metric).savefig(tmp_path / f"{metric}.png")
        assert (tmp_path / f"{metric}.png").stat().st_size > 10_000


def test_lines_of_several_flows_and_hosts_can_be_told_apart() -> None:
    request = {"size": "50kB", "request": "2kB", "think": "100ms", "count": 5}
    flows = [{"name": "a", "bulk": "3MB"}, {"name": "b", "bulk": "3MB"}]
    result = tabane.run(TWO.flow(**flows[0]).flow(**flows[1]).flow(name="web", request=request))
    lines = result.plot("goodput_bps").axes[0].lines
    labels = [line.get_label() for line in lines]
    assert {"a client", "a wifi", "b lte", "web server", "web wifi client"} <= set(labels)
    assert len(set(labels)) == len(labels) > 10
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == len(lines)
    one = tabane.run(TWO).plot("cwnd_bytes").axes[0].lines
    assert [line.get_color() for line in one].count("black") == 1
    links = [line.get_label() for line in result.plot("link_bps").axes[0].lines]
    assert len(set(links)) == 4 and "wifi server>client" in links
