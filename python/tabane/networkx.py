"""Graphs of networkx as scenarios (``pip install tabane[networkx]``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabane._scenario import Scenario, _plain

if TYPE_CHECKING:
    import networkx


def scenario(
    graph: networkx.Graph[Any],
    flows: Sequence[Mapping[str, Any]],
    *,
    routers: Sequence[Any] | None = None,
    **keys: Any,
) -> Scenario:
    """Makes a scenario of a graph: a link for each edge, with its attributes.

    Args:
        graph: undirected. An edge's attributes are those of a link: ``rate``, ``delay``, ``loss``,
            ``queue``..., and ``name``, by default ``A-B``; others are an error when it is checked.
            An edge has no direction, and networkx gives its nodes in the order in which they came
            into the graph, so ``up`` and ``down`` need ``between``: the edge's two nodes, *up* from
            the first to the second. A node that is no text is called as `str` has it: ``1``,
            ``(0, 1)``.
        flows: as ``[[flow]]`` of scenario files; ``from_`` is ``from``. It and ``to`` are nodes.
        routers: nodes that only forward; by default all that no flow names.
        **keys: other top-level keys, such as ``duration`` and ``defaults``.

    Raises:
        ValueError: the graph is directed, two nodes have one name, a flow's host is no node of it,
            or an edge has ``up`` or ``down`` and does not say which way that is.
        ScenarioError: an attribute is one that no scenario can hold.
    """
    if graph.is_directed():
        raise ValueError("the graph is directed: links carry both ways, so use nx.Graph")
    named = [_plain(dict(flow)) for flow in flows]
    hosts = set()
    for flow in named:
        flow.update({end: str(flow[end]) for end in ("from", "to") if end in flow})
        hosts |= {flow.get("from", "client"), flow.get("to", "server")}
    nodes = [str(node) for node in graph.nodes]
    for node, count in Counter(nodes).items():
        if count > 1:
            raise ValueError(f"{count} nodes are called '{node}': give them names of their own")
    for host in sorted(hosts):
        if host not in nodes:
            raise ValueError(f"a flow names '{host}', which is no node; nodes are: {nodes}")
    links: dict[str, dict[str, Any]] = {}
    for first, second, attributes in graph.edges(data=True):
        ends = [str(first), str(second)]
        own = {key: value for key, value in attributes.items() if key not in ("name", "between")}
        name = str(attributes.get("name", "-".join(ends)))
        if "between" in attributes:
            ends = _between(name, ends, attributes["between"])
        elif ways := [way for way in ("up", "down") if way in own]:
            raise ValueError(
                f"edge '{name}' has {' and '.join(ways)}, and an edge has no direction: give it "
                f"between={ends}, or the other way round; up is from the first to the second"
            )
        if name in links:
            raise ValueError(f"two edges are called '{name}': give one another name")
        links[name] = {"between": ends, **own}
    forwards = [n for n in nodes if n not in hosts] if routers is None else map(str, routers)
    return Scenario(link=links, flow=named, routers=list(forwards), **keys)


def _between(name: str, ends: list[str], between: Any) -> list[str]:
    """The edge's two nodes in the order that its attribute says."""
    said = [] if isinstance(between, str) else [str(node) for node in between]
    if sorted(said) != sorted(ends):
        raise ValueError(f"between of edge '{name}' is {between!r}: give its two nodes, {ends}")
    return said
