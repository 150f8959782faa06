"""The table of a plan by modules."""

import pytest

pytest.importorskip("torch", minversion="2.9")

from umbench.torch import table  # noqa: E402


def test_each_module_says_what_becomes_of_its_activations():
    names = ("a:mm", "b:relu", "c:mm", "d:add")
    graph = {"tensors": [{"name": n, "shape": [1, 1, 1, 256]} for n in names] + [{"name": "w", "shape": [1, 1, 1, 1], "use": "parameter"}],
             "ops": [{"name": n, "in": ["w"], "out": [n]} for n in names]}
    actions = [{"do": "compute", "what": n} for n in ("a:mm", "b:relu", "c:mm")] + [
        {"do": "compute", "what": "d:add", "part": {"batch": [0, 1]}}, {"do": "discard", "what": "a:mm"}, {"do": "evict", "what": "b:relu"},
        {"do": "prefetch", "what": "b:relu"}, {"do": "compute", "what": "a:mm"}]
    rows = table.rows_of({"network": {"graph": graph}, "actions": actions})
    assert {module: [column for column, size in row.items() if size] for module, row in rows.items()} == {
        "a": ["compute again"], "b": ["offload"], "c": ["keep"], "d": ["cut"]}
    assert all(sum(row.values()) == 1024 for row in rows.values())
