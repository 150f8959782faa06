"""JSON schemas of what umbench takes: every kept file keeps to them, and readers and schemas refuse the same wrong files."""

import copy
import json
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

from interface import ROOT, InterfaceTest

RUN = ["--network", "alexnet", "--batch", "4", "--ratio", "1.5", "--backend", "sim:h200", "--strategy"]
SWEEP = {"schema": 1, "name": "a", "common": {"network": "alexnet", "backend": "sim:h200"},
         "grids": [{"strategy": ["device", "managed_prefetch"], "batch": [1, 2], "ratio": [1, 1.5], "strategy_knobs": {"ahead": [1, 2]}}]}


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


@unittest.skipIf(jsonschema is None, "jsonschema is not installed")
class SchemaTest(InterfaceTest):
    def schema(self, name):
        found = read_json(ROOT / f"results/{name}.schema.json")
        jsonschema.Draft202012Validator.check_schema(found)
        graph = read_json(ROOT / "results/graph.schema.json")
        resolver = jsonschema.RefResolver("", found, store={"graph.schema.json": graph, "": found})
        return jsonschema.Draft202012Validator(found, resolver=resolver)

    def with_change(self, document, field_path, value):
        """The document with another value at that path; None takes the field away."""
        other = copy.deepcopy(document)
        inner = other
        for step in field_path[:-1]:
            inner = inner[step]
        if value is None:
            del inner[field_path[-1]]
        else:
            inner[field_path[-1]] = value
        return other

    def both_refuse(self, schema, command, document, changes):
        for path, value in changes:
            with self.subTest(path=path, value=value):
                wrong = self.with_change(document, path, value)
                self.assertFalse(schema.is_valid(wrong), "the schema takes it")
                self.run_refused(*command, self.write_file("wrong.json", wrong))

    def both_accept(self, schema, command, document, changes):
        for path, value in changes:
            with self.subTest(path=path, value=value):
                right = self.with_change(document, path, value)
                schema.validate(right)
                self.assertEqual(self.umbench(*command, self.write_file("right.json", right)).returncode, 0)


class Sweeps(SchemaTest):
    LIST = ["sweep", "--list"]

    def test_kept_files(self):
        schema = self.schema("sweep")
        kept = [*(ROOT / "benchmarks/sweeps").glob("*.json"), ROOT / "tests/simulator/reference/sweep.json",
                *(ROOT / "tests/harness/json/kept_inputs/sweep").glob("*.json")]
        self.assertGreater(len(kept), 12)
        for path in kept:
            schema.validate(read_json(path))

    def test_what_both_take(self):
        grid = ("grids", 0)
        self.both_accept(self.schema("sweep"), self.LIST, SWEEP, [
            (("name",), "a-b_c.1"), ((*grid, "insize"), [224, 448]), ((*grid, "memory_order"), "nhwc"), ((*grid, "sgd"), [True, False]),
            ((*grid, "optimizer"), ["none", "momentum"]), ((*grid, "masters"), False),
            ((*grid, "precision"), ["fp32", "bf16"]), ((*grid, "timeline"), True), ((*grid, "strategy_knobs"), {}),
            ((*grid, "network_knobs"), {"insize": 448}), (("common", "deadline_s"), 10)])
        budgets = self.with_change(SWEEP, ("grids", 0, "ratio"), None)
        self.both_accept(self.schema("sweep"), self.LIST, budgets, [
            ((*grid, "budget"), value) for value in ("4GiB", "1.5 GB", "512", 1000, ["1GiB", 4096])])

    def test_what_both_refuse(self):
        grid = ("grids", 0)
        changes = [(("schema",), 2), (("schema",), "1"), (("schema",), None), (("name",), None), (("name",), "A b"), (("name",), ""),
                   (("name",), 3), (("grids",), None), (("grids",), []), (("grids",), {}), (("grids",), [1]), (("grid",), []),
                   (("common", "network"), None), (("common", "backend"), None), (("common", "backend"), "gpu"),
                   (("common", "backend"), "sim:"), (("common", "backend"), []), ((*grid, "strategy"), None),
                   ((*grid, "strategy"), []), ((*grid, "strategy"), 1), ((*grid, "budget"), "4GiB"), ((*grid, "batch"), 0),
                   ((*grid, "batch"), -1), ((*grid, "batch"), 1.5), ((*grid, "batch"), "1"), ((*grid, "batch"), []),
                   ((*grid, "insize"), 0), ((*grid, "insize"), "224"), ((*grid, "ratio"), 0), ((*grid, "ratio"), 65), ((*grid, "ratio"), "2"),
                   ((*grid, "iterations"), 0), ((*grid, "iterations"), [5]), ((*grid, "iterations"), 100001), ((*grid, "deadline_s"), 86401),
                   ((*grid, "timeline"), 1), ((*grid, "timeline"), [True]), ((*grid, "sgd"), "yes"), ((*grid, "pass"), "backward"),
                   ((*grid, "optimizer"), "adam"), ((*grid, "masters"), 1),
                   ((*grid, "fusion"), "fussed"), ((*grid, "fusion"), []), ((*grid, "precision"), "fp16"), ((*grid, "memory_order"), "hwcn"),
                   ((*grid, "mode"), "real"), ((*grid, "strategy_knobs"), []), ((*grid, "strategy_knobs"), {"ahead": "1"}),
                   ((*grid, "strategy_knobs"), {"ahead": []}), ((*grid, "network_knobs"), {"insize": 1.5}),
                   ((*grid, "workspace_cap"), "many"), ((*grid, "workspace_cap"), 0), ((*grid, "colour"), "red")]
        self.assertGreater(len(changes), 50)
        self.both_refuse(self.schema("sweep"), self.LIST, SWEEP, changes)
        self.run_refused(*self.LIST, self.write_file("large.json", self.with_change(SWEEP, (*grid, "batch"), 2**63)))  # the schema has no limit


class Plans(SchemaTest):
    COMMAND = ["run", "--backend", "sim:h200", "--plan"]

    def written_plan(self, strategy, *more):
        self.run_ok("plan", *RUN, strategy, *more, "-o", "plan.json")
        return read_json(self.folder / "plan.json")

    def test_plans_of_every_kind_and_kept_ones(self):
        schema = self.schema("plan")
        for strategy in ("device", "swap_all", "managed_advise", "twin", "deepum", "best", "micro_batches", "vdnn_all", "ooc_cudnn"):
            done = self.umbench("plan", *RUN, strategy, "-o", f"{strategy}.json")
            if done.returncode == 0:
                schema.validate(read_json(self.folder / f"{strategy}.json"))
        self.assertGreater(len(list(self.folder.glob("*.json"))), 4)
        for path in (ROOT / "tests/harness/json/kept_inputs/plan").glob("*.json"):
            schema.validate(read_json(path))

    def test_a_plan_for_a_graph_of_ones_own(self):
        self.run_ok("plan", "--network", "conv", "--strategy", "device", "--backend", "sim:h200", "--graph", "graph.json")
        self.run_ok("plan", "--network", "graph.json", "--strategy", "managed", "--backend", "sim:h200", "-o", "plan.json")
        plan = read_json(self.folder / "plan.json")
        self.schema("plan").validate(plan)
        plan["network"]["graph"]["tensors"][0]["shape"] = [1, 2]
        self.assertFalse(self.schema("plan").is_valid(plan))

    def test_what_both_refuse(self):
        plan = self.written_plan("managed_advise")
        advice = next(i for i, action in enumerate(plan["actions"]) if action["do"] == "advise")
        compute = next(i for i, action in enumerate(plan["actions"]) if action["do"] == "compute")
        first = next(iter(plan["homes"]))
        changes = [((field,), None) for field in ("schema", "kind", "network", "strategy", "strategy_knobs", "ratio", "footprint_bytes", "budget_bytes", "mode",
                                                  "placed_by", "homes", "actions")]
        changes += [(("schema",), 2), (("kind",), "graph"), (("colour",), "red"), (("strategy",), ""), (("strategy",), "A"), (("strategy",), "#a"),
                    (("strategy_knobs",), []), (("strategy_knobs",), {"ahead": "1"}), (("ratio",), 65), (("ratio",), "2"), (("budget_bytes",), 0),
                    (("budget_bytes",), "4GiB"), (("footprint_bytes",), -1), (("mode",), "real"), (("placed_by",), "worst_fit"),
                    (("network", "name"), None), (("network", "batch"), 0), (("network", "pass"), "both"), (("network", "sgd"), 0),
                    (("network", "fusion"), "fussed"), (("network", "memory_order"), 1), (("network", "knobs"), []),
                    (("homes", first), "moon"), (("actions",), {}), (("actions", 0), "compute"), (("joins",), [-1]), (("joins",), {}),
                    (("actions", advice, "hint"), "please"), (("actions", advice, "hint"), None), (("actions", advice, "part"), {}),
                    (("actions", compute, "do"), "dance"), (("actions", compute, "what"), None), (("actions", compute, "part"), {"batch": [1]}),
                    (("actions", compute, "part"), {"depth": [0, 1]}), (("actions", compute, "workspace_bytes"), -1),
                    (("actions", compute, "again"), 1),
                    (("actions", compute, "hint"), "read_mostly")]
        self.both_refuse(self.schema("plan"), self.COMMAND, plan, changes)


class Made(InterfaceTest):
    def test_schemas_are_made_of_the_fields(self):
        """After a change of fields, umbench list sweep-schema > results/sweep.schema.json writes the schema anew; so for each of the others."""
        for name in ("record", "sweep", "graph", "plan", "rules", "machine"):
            with self.subTest(name=name):
                what = "schema" if name == "record" else f"{name}-schema"
                self.assertEqual(self.run_ok("list", what), (ROOT / f"results/{name}.schema.json").read_text(encoding="utf-8"))


class Rules(SchemaTest):
    """Whether reader and schema agree: interface_rules."""

    def test_kept_files(self):
        schema = self.schema("rules")
        kept = list((ROOT / "tests/harness/json/kept_inputs/hints").glob("*.json"))
        self.assertTrue(kept)
        for path in kept:
            schema.validate(read_json(path))


class Machines(SchemaTest):
    def test_kept_files(self):
        schema = self.schema("machine")
        kept = [*(ROOT / "results/machines").glob("*.json"), *(ROOT / "results/validation/machines").glob("*.json")]
        self.assertGreater(len(kept), 10)
        for path in kept:
            schema.validate(read_json(path))
            self.assertEqual(read_json(path)["name"], path.stem)
