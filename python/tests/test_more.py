"""Captures, papers and graphs."""

import json
import subprocess
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from test_run import TWO, binary

import tabane
import tabane.networkx
from tabane import papers


def test_a_capture_is_read_as_the_command_line_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "client.pcapng"
    result = tabane.run(TWO)
    result.pcap(file)
    capture = tabane.read_pcap(file)
    printed = subprocess.run(
        [binary(), "pcap", file, "--json"], check=True, capture_output=True, text=True
    )
    assert capture.document == json.loads(printed.stdout)


def test_a_capture_says_what_the_run_says(tmp_path: Path) -> None:
    result = tabane.run(TWO)
    result.pcap(tmp_path / "server.pcapng", at="server")
    capture = tabane.read_pcap(tmp_path / "server.pcapng")
    down = capture.connections.where(direction="backward")
    assert list(down["new_bytes"]) == [5_000_000]
    subflows = capture.subflows.where(direction="backward")
    assert len(subflows) == 2 and np.all(subflows["rtt_median_s"] > 0.0)
    assert "retransmission" in subflows
    assert "backward" in capture.series["direction"]
    with pytest.raises(FileNotFoundError, match=r"none\.pcap'"):
        tabane.read_pcap(tmp_path / "none.pcap")
    (tmp_path / "text").write_text("no capture at all, only some text")
    with pytest.raises(tabane.RunError):
        tabane.read_pcap(tmp_path / "text")


def test_papers_are_repeated(tmp_path: Path) -> None:
    names = [paper.name for paper in papers.all()]
    assert "ecf3" in names
    report = papers.run("ecf3", quick=True, folder=tmp_path)
    assert len(report.claims) > 3 and set(report.claims["verdict"])
    assert report.cells["ours"].dtype == np.float64
    assert (tmp_path / "report.html").exists()
    with pytest.raises(ValueError, match="did you mean"):
        papers.run("ecf4")


def test_a_graph_becomes_a_scenario() -> None:
    graph = nx.Graph()
    graph.add_edge("client", "home", rate="50Mbps", delay="5ms", name="dsl")
    graph.add_edge("client", "mast", rate="20Mbps", delay="20ms", name="lte")
    graph.add_edge("home", "server", rate="1Gbps", delay="5ms")
    graph.add_edge("mast", "server", rate="1Gbps", delay="5ms")
    made = tabane.networkx.scenario(graph, [{"bulk": "5MB"}], duration="20s")
    result = tabane.run(made, watch=False)
    assert result.flows["goodput_bps"][0] > 45e6
    assert set(result.paths["path"]) == {"dsl", "lte"}
    with pytest.raises(ValueError, match="names 'servers', which is no node"):
        tabane.networkx.scenario(graph, [{"bulk": "5MB", "to": "servers"}])
    with pytest.raises(ValueError, match="directed"):
        tabane.networkx.scenario(nx.DiGraph(graph), [])


def test_an_edge_that_is_not_the_same_both_ways_says_which_is_up() -> None:
    graph = nx.Graph()
    graph.add_nodes_from([2, 1])
    graph.add_edge(1, 2, up={"rate": "1Mbps"}, down={"rate": "50Mbps"})
    flows = [{"bulk": "1MB", "from_": 1, "to": 2}]
    # networkx gives its nodes as 2, 1: up would be the other way.
    with pytest.raises(ValueError, match=r"edge '2-1' has up and down.*between=\['2', '1'\]"):
        tabane.networkx.scenario(graph, flows, duration="20s")
    graph.edges[1, 2]["between"] = (1, 2)
    made = tabane.networkx.scenario(graph, flows, duration="20s")
    assert tabane.run(made, watch=False).flows["goodput_bps"][0] > 5e6
    graph.edges[1, 2]["between"] = (2, 1)
    made = tabane.networkx.scenario(graph, flows, duration="20s")
    assert tabane.run(made, watch=False).flows["goodput_bps"][0] < 1e6
    for wrong in ((1, 3), (1,), "12"):
        graph.edges[1, 2]["between"] = wrong
        with pytest.raises(ValueError, match="give its two nodes"):
            tabane.networkx.scenario(graph, flows, duration="20s")
