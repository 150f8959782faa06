"""What a picture of a plan says, for a plan of a few actions."""
import json


def graph():
    def tensor(name, use, images=4):
        return {"name": name, "shape": [images, 8, 1, 1], "type": "f32", "order": "nchw", "use": use}

    def op(name, inputs, outputs):
        return {"name": name, "kind": "relu", "in": inputs, "out": outputs, "repeatable": True, "alias": None}

    return {"tensors": [tensor("x", "input"), tensor("w", "parameter", 2), tensor("a", "activation"), tensor("b", "activation"),
                        tensor("c", "activation")],
            "ops": [op("first", ["x", "w"], ["a"]), op("second", ["a"], ["b"]), op("third", ["x"], ["c"]), op("last", ["a", "b"], ["c"])]}


def plan():
    def action(verb, subject):
        return {"do": verb, "what": subject}

    return {"network": {"name": "net", "batch": 4, "precision": "fp32"}, "strategy": "best", "ratio": 2, "budget_bytes": 1 << 20,
            "homes": {"x": "staged", "w": "device", "a": "staged", "b": "device", "c": "device"},
            "actions": [action("prefetch", "x"), action("compute", "first"), action("compute", "second"), action("compute", "last"), action("evict", "a"),
                        action("discard", "b"), action("compute", "third"), action("prefetch", "a"), action("compute", "second"), action("compute", "last")]}


def test_tensors_are_kept_moved_and_given_up():
    from umbench.plots import plan as picture

    states, computes = picture.tensor_states(plan(), graph())
    assert computes == 6
    whole = (0, 4)
    assert states["a"][whole] == [("kept", 0, 3), ("moved", 3, 4), ("kept", 4, 6)]
    assert states["b"][whole] == [("kept", 1, 3), ("gone", 3, 4), ("kept", 4, 6)]
    assert states["w"][(0, 2)] == [("kept", 0, 6)]


def test_a_plan_is_drawn(script, tmp_path):
    for name, value in (("plan", plan()), ("graph", graph())):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    done = script("plots.plan", tmp_path / "plan.json", tmp_path / "graph.json", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "plan.svg").read_text()
    assert "moved to the host" in text and "given up, computed again" in text
    assert script("plots.plan", tmp_path / "none.json", tmp_path / "graph.json").returncode == 2
