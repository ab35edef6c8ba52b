"""A sweep on a Ray cluster of two nodes, one of which is killed in the middle."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tabane

ray = pytest.importorskip("ray", reason="SKIPPED: ray is not installed")

SCENARIO = tabane.Scenario(
    duration="10s",
    link={"wifi": {"rate": "30Mbps", "delay": "10ms", "loss": "0.5%"}},
    flow=[{"bulk": "2MB"}],
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_node_that_dies_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    killed = threading.Event()

    def kill() -> None:
        while len(list(tmp_path.rglob("*.json"))) < 30:
            time.sleep(0.01)
        cluster.remove_node(cluster.node, allow_graceful=False)
        killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    heavy = {"flow.0.bulk": "20MB"}
    swept = tabane.sweep(
        SCENARIO, seeds=range(300), set=heavy, executor="ray", progress=False, cache=tmp_path
    )
    thread.join()
    assert killed.is_set()
    # The cluster learns of it from a connection that ends, or from health checks, seconds later.
    deadline = time.monotonic() + 60
    while sum(node["Alive"] for node in ray.nodes()) > 1:
        assert time.monotonic() < deadline, "the node that was killed still counts as alive"
        time.sleep(0.1)
    local = tabane.sweep(SCENARIO, seeds=range(300), set=heavy, progress=False, cache=False)
    for column in swept.flows:
        ours, theirs = swept.flows[column], local.flows[column]
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype == np.float64), column
