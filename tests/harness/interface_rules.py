"""Files of rules: what their schema says is what umbench takes, and rules find tensors by name, size and operator."""

import copy
import json

import jsonschema
from interface import ROOT, InterfaceTest

CELL = ["--network", "vgg11_cifar", "--batch", "64", "--ratio", "1.5", "--backend", "sim:h200"]
RULES = [
    {"name": "weights", "roles": ["parameter"], "least_bytes": 1, "advise": "preferred_device"},
    {"name": "fetch", "names": ["conv*.y", "bn?_1.y"], "prefetch": {"operands": "inputs", "ahead_operators": 3, "from": "network"}},
    {"name": "away", "roles": ["activation"], "use": "needed_again", "written_by": ["batch_norm", "max_pool"], "read_by": ["opaque:gelu*", "convolution"],
     "evict": {"when": "after_use", "gap_operators": 5, "by": "prefetch_to_host"}},
    {"name": "dead", "discard": {"prefetch": True}},
]
CHANGES = [
    {"names": []}, {"names": [""]}, {"names": "conv*"}, {"names": [1]}, {"least_bytes": 0}, {"least_bytes": "1 MiB"}, {"read_by": []},
    {"read_by": ["conv"]}, {"read_by": ["opaque:"]}, {"read_by": ["opaque:x"]}, {"written_by": ["opaque"]}, {"written_by": "relu"}, {"roles": []},
    {"roles": ["workspace"]}, {"use": "never"}, {"use": "passing"}, {"name": "Upper"}, {"name": ""}, {"more": 1}, {"residence": "device"},
    {"discard": {}}, {"discard": {"prefetch": 1}}, {"discard": None}]


def hints_document(rules):
    return {"schema": 1, "kind": "hints", "name": "mine", "summary": "by hand", "rules": rules}


class Rules(InterfaceTest):
    def setUp(self):
        super().setUp()
        self.schema = jsonschema.Draft202012Validator(json.loads((ROOT / "results/rules.schema.json").read_text(encoding="utf-8")))

    def is_accepted(self, document):
        done = self.umbench("plan", *CELL, "--strategy", self.write_file("mine.json", document))
        self.assertIn(done.returncode, (0, 2), done.stderr)
        self.assertEqual(done.stderr.count("\n"), int(done.returncode != 0), done.stderr)
        if done.returncode == 2:
            self.assertIn("mine.json", done.stderr)
        return done.returncode == 0

    def test_the_schema_takes_what_umbench_takes(self):
        documents = [hints_document(RULES), hints_document([]), hints_document(RULES) | {"kind": "rules"}, hints_document(RULES) | {"schema": 2}]
        for change in CHANGES:
            rules = copy.deepcopy(RULES)
            rules[3] |= change
            documents.append(hints_document(rules))
        taken = [self.is_accepted(document) for document in documents]
        for document, well in zip(documents, taken):
            self.assertEqual(self.schema.is_valid(document), well, document)
        self.assertTrue(any(taken) and not all(taken))

    def advised_tensors(self, **conditions):
        """Tensors that a rule for `conditions` gives an advice in the plan."""
        rule = {"name": "one", "advise": "preferred_device"} | conditions
        self.run_ok("plan", *CELL, "--fusion", "none", "--strategy", self.write_file("mine.json", hints_document([rule])), "-o", "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        return {action["what"] for action in plan["actions"] if action["do"] == "advise"}

    def test_rules_find_their_tensors(self):
        every = self.advised_tensors()
        self.assertGreater(len(every), 20)
        self.assertEqual(self.advised_tensors(names=["conv1_1.y", "*2_1.y"]), {name for name in every if name == "conv1_1.y" or name.endswith("2_1.y")})
        self.assertEqual(self.advised_tensors(names=["none*"]), set())
        large = self.advised_tensors(least_bytes=8 << 20)
        self.assertTrue(large and large < every)
        pooled = self.advised_tensors(written_by=["max_pool"], roles=["activation"])
        self.assertTrue(pooled and all(name.startswith("pool") for name in pooled), pooled)
        self.assertTrue(all(name.startswith("bn") for name in self.advised_tensors(read_by=["relu"])))
        self.assertEqual(self.advised_tensors(read_by=["opaque:*"]), set())

    def test_labels_of_opaque_operators_are_patterns(self):
        cell = ["--network", ROOT / "tests/networks/exported/vit_b_16.json", "--ratio", "1.5", "--backend", "sim:h200"]
        rule = {"name": "one", "written_by": ["opaque:gel*"], "advise": "preferred_device"}
        self.run_ok("plan", *cell, "--strategy", self.write_file("mine.json", hints_document([rule])), "-o", "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        found = {action["what"] for action in plan["actions"] if action["do"] == "advise"}
        self.assertTrue(found and all("gelu" in name for name in found), found)
