"""What users write for values, and what a scenario makes of it."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import tabane
import tabane.networkx

TWO = tabane.Scenario(
    duration="2s",
    link={"wifi": {"rate": "10Mbps", "delay": "10ms"}, "lte": {"rate": "5Mbps", "delay": "30ms"}},
    flow=[{"bulk": "100kB"}],
)


def swept(over: dict[str, Any], **more: Any) -> tabane.Sweep:
    return tabane.sweep(TWO, over, progress=False, cache=False, **more)


@pytest.mark.parametrize("loss", [np.float64(0.01), np.float32(0.25), Decimal("0.01"), np.int64(0)])
def test_numbers_of_all_kinds_are_numbers(loss: Any) -> None:
    same = tabane.run(TWO, set={"link.lte.loss": float(loss)}, watch=False).json()
    assert tabane.run(TWO, set={"link.lte.loss": loss}, watch=False).json() == same
    built = TWO.link("lte", rate="5Mbps", delay="30ms", loss=loss)
    assert tabane.run(built, watch=False).json() == same


def test_axes_of_numpy_are_numbers_and_may_be_gone_through_once() -> None:
    key = "defaults.mptcp.segments_per_mapping"
    table = swept({key: np.arange(1, 4)}, seeds=np.arange(2))
    assert table.flows[key].dtype == np.int64 and list(table.flows[key]) == [1, 1, 2, 2, 3, 3]
    assert swept({"link.lte.loss": np.linspace(0, 0.02, 3)}).flows["link.lte.loss"][2] == 0.02
    once = swept({"link.lte.delay": (f"{ms}ms" for ms in (10, 20))})
    assert list(once.flows["link.lte.delay"]) == ["10ms", "20ms"]


def test_a_seed_is_a_whole_number_of_any_kind() -> None:
    assert tabane.run(TWO, seed=np.int64(7), watch=False).seed == 7
    assert tabane.run(tabane.Scenario(**{**TWO._keys, "seed": np.int64(3)})).seed == 3
    for seed in (-1, 1.5, True, "1", 2**64):
        with pytest.raises(tabane.ScenarioError, match=r"^seed: .* is no seed\n.*whole number"):
            tabane.run(TWO, seed=seed)
    with pytest.raises(tabane.ScenarioError, match=r"^seeds: -1 is no seed"):
        swept({}, seeds=[1, -1])


def test_paths_are_texts(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n2\n3\n")
    link = {"trace": tmp_path / "lte.trace", "delay": Path("5ms")}
    made = tabane.Scenario(duration="2s", link={"lte": link}, flow=[{"bulk": "10kB"}])
    assert tabane.run(made, watch=False).flows["bytes"][0] == 10_000
    delayed = tabane.run(TWO, set={"link.lte.delay": Path("5ms")}, watch=False)
    assert delayed.json() == tabane.run(TWO, set={"link.lte.delay": "5ms"}, watch=False).json()


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (None, "None is no value\n.*leave the key out"),
        (float("nan"), "nan is no value\n.*write a number"),
        (Decimal("Infinity"), "inf is no value\n.*write a number"),
        ({1, 2}, r"a scenario cannot hold \{1, 2\}\n.*lists"),
        (b"1%", "a scenario cannot hold b'1%'\n.*texts"),
        (int, "a scenario cannot hold <class 'int'>\n.*classes of policies"),
    ],
)
def test_what_has_no_meaning_names_the_place_and_the_remedy(value: Any, remedy: str) -> None:
    with pytest.raises(tabane.ScenarioError, match=rf"^link\.lte\.loss: {remedy}"):
        tabane.run(TWO, set={"link.lte.loss": value})
    with pytest.raises(tabane.ScenarioError, match=rf"^link\.lte\.loss: {remedy}"):
        TWO.link("lte", rate="5Mbps", loss=value)
    with pytest.raises(tabane.ScenarioError, match=rf"^link\.lte\.loss\.1: {remedy}"):
        swept({"link.lte.loss": [0.0, value]})
    with pytest.raises(tabane.ScenarioError, match=rf"^flow\.0\.bulk: {remedy}"):
        tabane.Scenario(flow=[{"bulk": value}])


def test_an_axis_of_one_value_is_refused() -> None:
    for value in ("necf", 1.5, {"a": 1}):
        with pytest.raises(tabane.ScenarioError, match=r"^defaults\.scheduler: .* is one value"):
            swept({"defaults.scheduler": value})


def test_nodes_may_be_whatever_networkx_has() -> None:
    for graph, first, last in (
        (nx.path_graph(3), 0, 2),
        (nx.grid_2d_graph(2, 2), (0, 0), (1, 1)),
        (nx.path_graph(["a", 1]), "a", 1),
    ):
        nx.set_edge_attributes(
            graph, {e: {"rate": "10Mbps", "loss": np.float64()} for e in graph.edges}
        )
        for ends in ((first, last), (str(first), str(last))):
            flow = {"bulk": "100kB", "from_": ends[0], "to": ends[1]}
            made = tabane.networkx.scenario(graph, [flow], duration="5s")
            assert tabane.run(made, watch=False).flows["bytes"][0] == 100_000
        rest = [node for node in graph if node not in (first, last)]
        tabane.networkx.scenario(graph, [flow], routers=rest, duration="5s").check()
    nx.set_edge_attributes(graph, None, "delay")
    with pytest.raises(tabane.ScenarioError, match=r"^link\.a-1\.delay: None is no value"):
        tabane.networkx.scenario(graph, [flow])
    with pytest.raises(ValueError, match="2 nodes are called '1'"):
        tabane.networkx.scenario(nx.Graph([(1, "1")]), [])


def test_a_scenario_does_not_change_with_what_it_was_built_from() -> None:
    wifi, flow = {"rate": "10Mbps", "delay": "10ms"}, {"bulk": "1MB"}
    links, flows = {"wifi": wifi}, [flow]
    made = tabane.Scenario(duration="9s", link=links, flow=flows).path("p", ["wifi"])
    more = made.link("lte", **wifi).flow(**flow)
    wifi["rate"] = "1Mbps"
    flow["bulk"] = "2MB"
    links["other"] = wifi
    flows.append(flow)
    for scenario in (made, more, more.host("client")):
        assert "other" not in scenario.toml and "2MB" not in scenario.toml
        assert scenario.toml.count("10Mbps") == scenario.toml.count("rate")
