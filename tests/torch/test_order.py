"""The order of kernels by least memory."""

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

from umbench.torch.kernels import Kernel  # noqa: E402
from umbench.torch.order import in_running_order  # noqa: E402


def add_node(graph, name, element_count, *input_nodes):
    made = graph.create_node("call_function", torch.relu, input_nodes, name=name)
    made.meta["val"] = torch.empty(element_count)
    return made


def test_what_gives_memory_back_comes_before_what_takes_it():
    graph = torch.fx.Graph()
    saved = [graph.placeholder(f"saved{i}") for i in range(2)]
    for each in saved:
        each.meta["val"] = torch.empty(100)
    start = add_node(graph, "start", 10)
    large = add_node(graph, "large", 90, start)
    small = [add_node(graph, f"small{i}", 10, start, each) for i, each in enumerate(saved)]
    kernels = [Kernel([n], list(n.all_input_nodes), [n]) for n in (start, large, *small)]
    assert [k.nodes[0].name for k in in_running_order(kernels, {large, *small})] == ["start", "small0", "small1", "large"]
    assert in_running_order(kernels, {large, *small, *saved}) == kernels  # where nothing is given back, nothing is gained
    assert in_running_order([], set()) == []
