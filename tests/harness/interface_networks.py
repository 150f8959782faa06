"""Networks of one's own: graph files in the place of a network's name.

The files under tests/networks/exported were written by umbench export; models.py beside them says of what.
"""

import json

import jsonschema
from interface import ROOT, InterfaceTest, read_entries

EXPORTED = ROOT / "tests" / "networks" / "exported"
NETWORKS = ["alexnet", "convnext_t", "densenet121", "gpt2_small", "gru", "mobilenet_v2", "resnet50", "swin_t", "unet", "vgg16", "vit_b_16"]
# Exported, and umbench's own of the same batch: without fusion they hold the same.
TWINS = {"alexnet": 32, "vgg16": 32, "resnet50": 32}
SLACK = 0.02
# What each network is planned and simulated by; AlexNet by every strategy. benchmarks/sweeps/exported.json does so for all.
ON_ALL = ["device", "managed", "twin", "swap_all"]


def records(path):
    return read_entries(path)[1]


def small_graph():
    """Every kind of field that a file may have."""
    cut = {"in": ["part", "whole"], "out": ["part", "sum"]}
    return {"schema": 1, "kind": "graph", "name": "own", "precision": "fp32",
            "tensors": [{"name": "x", "shape": [4, 3, 8, 8], "use": "input", "type": "f32", "order": "nchw"},
                        {"name": "w", "shape": [5, 3, 3, 3], "use": "parameter"}, {"name": "y", "shape": [4, 5, 8, 8]},
                        {"name": "z", "shape": [4, 5, 8, 8]}, {"name": "s", "shape": [1, 5, 1, 1], "use": "parameter_gradient"}],
            "ops": [{"name": "conv", "kind": "convolution", "stride": [1, 1], "pad": [1, 1], "relu": False, "in": ["x", "w"], "out": ["y"]},
                    {"name": "norm", "kind": "opaque", "label": "layer_norm", "flops": 5120, "bytes": 10240, "products": False,
                     "duration_ns": None, "workspace_bytes": 256, "cut": cut, "in": ["y", "w"], "out": ["z", "s"],
                     "repeatable": True, "alias": {"input": 0, "output": 0}}]}


class Exported(InterfaceTest):
    def cell_options(self, network_name, strategy, *more_options):
        return ["--network", EXPORTED / f"{network_name}.json", "--strategy", strategy, "--backend", "sim:h200", *more_options]

    def run_to_footprint(self, *cell_options):
        self.run_ok("run", *cell_options, "--out", "f.jsonl", "--iterations", "1")
        return records(self.folder / "f.jsonl")[-1]["memory"]["footprint_bytes"]

    def test_all_are_there(self):
        self.assertEqual(sorted(path.stem for path in EXPORTED.glob("*.json")), NETWORKS)
        self.assertLess(sum(path.stat().st_size for path in EXPORTED.glob("*.json")), 3_000_000)

    def test_states_stay_on_the_host_where_nothing_fits_otherwise(self):
        """VGG-16's weights, gradients and AdamW's states are 2.1 of 2.35 GiB."""
        for ratio, states_on_host in ((1.02, False), (1.4, True)):
            self.run_ok("run", "--network", "vgg16", "--batch", "8", "--optimizer", "adamw", "--strategy", "swap_all", "--ratio", str(ratio),
                        "--backend", "sim:h200", "--iterations", "1", "--out", f"{ratio}.jsonl")
            memory = records(self.folder / f"{ratio}.jsonl")[-1]["memory"]
            self.assertEqual(memory["pinned_arena_bytes"] > 2**30, states_on_host)
            self.assertLessEqual(memory["device_arena_bytes"], memory["budget_bytes"])

    def test_they_are_of_the_schema_and_so_is_what_plan_writes(self):
        schema = jsonschema.Draft202012Validator(json.loads((ROOT / "results/graph.schema.json").read_text(encoding="utf-8")))
        self.run_ok("plan", "--network", "resnet20_cifar", "--optimizer", "adamw", "--strategy", "device", "--backend", "sim:h200", "--graph", "ours.json")
        for path in [*EXPORTED.glob("*.json"), self.folder / "ours.json"]:
            schema.validate(json.loads(path.read_text(encoding="utf-8")))
        schema.validate(small_graph())
        for change in ({"schema": 2}, {"precision": "fp16"}, {"more": 1}, {"tensors": [{"name": "x", "shape": [1, 2, 3]}]},
                       {"ops": [{"name": "a", "kind": "opaque", "in": [], "out": ["x"]}]}, {"ops": [{"name": "a", "kind": "relu6", "in": [], "out": []}]}):
            self.assertFalse(schema.is_valid(small_graph() | change), change)

    def test_they_hold_what_our_own_hold(self):
        for name, batch in TWINS.items():
            theirs = self.run_to_footprint(*self.cell_options(name, "device"))
            ours = self.run_to_footprint("--network", name, "--batch", batch, "--fusion", "none", "--strategy", "device", "--backend", "sim:h200")
            self.assertAlmostEqual(theirs / ours, 1, delta=SLACK, msg=name)

    def test_they_run_under_every_strategy_or_say_why_not(self):
        listed = json.loads(self.run_ok("list", "strategies", "--json"))
        every = [row["name"] for row in (listed["strategies"] if isinstance(listed, dict) else listed)]
        quick = [name for name in every if not name.startswith("best") and name not in [*ON_ALL, "tvdnn_ilp"]]
        grids = [{"network": [str(EXPORTED / f"{name}.json") for name in NETWORKS], "strategy": ON_ALL, "ratio": [1.5]},
                 {"network": str(EXPORTED / "alexnet.json"), "strategy": quick, "ratio": [1.25]},
                 {"network": str(EXPORTED / "alexnet.json"), "strategy": "tvdnn_ilp", "ratio": [1.25], "strategy_knobs": {"slots": 8}}]
        spec = {"schema": 1, "name": "exported", "common": {"iterations": 2, "deadline_s": 600, "backend": "sim:h200"}, "grids": grids}
        self.umbench("sweep", self.write_file("s.json", spec), "--out", "s.jsonl")
        found = records(self.folder / "s.jsonl")
        self.assertEqual(len(found), len(NETWORKS) * len(ON_ALL) + len(quick) + 1)
        for record in found:
            lacks = record["outcome"] == "unsupported" and "HiGHS" in record["reason"]  # optional
            self.assertTrue(lacks or record["outcome"] in ("ok", "infeasible"), f"{record['key']}: {record['reason']}")
            self.assertRegex(record["network"], r"^[a-z0-9_]+#[0-9a-f]{8}$")
            if record["outcome"] == "infeasible":
                self.assertRegex(record["reason"], r"\d")
        solved = {record["strategy"] for record in found if record["outcome"] == "ok"}
        self.assertGreater(len(solved), len(every) * 2 // 3)


class OwnNetwork(InterfaceTest):
    def cell_options(self, path="own.json", strategy="swap_all"):
        return ["--network", path, "--strategy", strategy, "--backend", "sim:h200"]

    def test_what_plan_writes_can_be_run(self):
        ours = ["--network", "alexnet", "--batch", "4", "--strategy", "managed", "--ratio", "1.5", "--backend", "sim:h200", "--fusion", "none"]
        self.run_ok("plan", *ours, "--graph", "alexnet.json")
        self.run_ok("run", *ours, "--out", "ours.jsonl")
        self.run_ok("run", *self.cell_options("alexnet.json", "managed"), "--ratio", "1.5", "--out", "file.jsonl")
        ours, file = records(self.folder / "ours.jsonl")[0], records(self.folder / "file.jsonl")[0]
        self.assertEqual(ours["samples_ns"], file["samples_ns"])
        self.assertEqual(ours["memory"], file["memory"])
        self.assertEqual((file["batch"], file["pass"], file["fusion"]), (4, "train", "none"))
        self.assertTrue(file["network"].startswith("alexnet#"))

    def test_plans_and_advice_are_told_by_modules(self):
        named = {"y": "body.0.conv:y", "z": "body.1.norm:z"}
        text = json.dumps(small_graph())
        for short, name in named.items():
            text = text.replace(f'"{short}"', f'"{name}"')
        self.write_file("own.json", json.loads(text))
        for shown in (self.run_ok("plan", *self.cell_options(), "--table"), self.run_ok("advise", *self.cell_options())):
            self.assertRegex(shown, r"(?m)^module +compute again +offload +cut +keep$")
            self.assertRegex(shown, r"(?m)^body\.0\.conv +5\.00 KiB$")

    def test_a_plan_carries_its_network(self):
        self.write_file("own.json", small_graph())
        self.run_ok("plan", *self.cell_options(), "-o", "plan.json")
        (self.folder / "own.json").unlink()
        self.run_ok("run", "--plan", "plan.json", "--backend", "sim:h200", "--out", "r.jsonl")
        record = records(self.folder / "r.jsonl")[0]
        self.assertEqual(record["outcome"], "ok")
        self.assertIsNone(record["digest"])
        self.assertNotIn("replayed", record)

    def test_it_is_as_it_is(self):
        self.write_file("own.json", small_graph())
        self.run_refused("run", *self.cell_options(), "--batch", "8", "--out", "r.jsonl", words=["--batch", "own.json"])
        self.run_refused("run", *self.cell_options("none.json"), "--out", "r.jsonl", words=["none.json"])
        self.write_file("named.json", small_graph() | {"name": "a/b"})
        self.run_refused("run", *self.cell_options("named.json"), "--out", "r.jsonl", words=["named.json", "name"])

    def test_its_time_follows_from_what_it_says(self):
        graph = small_graph()
        graph["ops"][1]["duration_ns"] = 5_000_000
        self.write_file("own.json", graph)
        self.run_ok("run", *self.cell_options(strategy="device"), "--out", "r.jsonl")
        record = records(self.folder / "r.jsonl")[0]
        self.assertGreater(record["compute_ns"], 5_000_000)
        self.assertLess(record["compute_ns"], 5_100_000)
