"""`umbench reproduce`: a paper's experiment, published beside ours."""

import json
import os
import re
import subprocess
import sys

from interface import PROGRAM, ROOT, InterfaceTest, read_entries

sys.path.insert(0, str(ROOT / "python"))
from umbench import reproduce, variations  # noqa: E402

PAPERS = sorted((ROOT / "results/papers").glob("*.json"))
ASKED = {"unified_memory", "ooc_cudnn", "tvdnn", "pooch", "smartpool", "autoswap", "vdnn", "oc_dnn", "deepum", "uvm_discard"}


VARIATIONS = json.loads((ROOT / "results/validation/variations.json").read_text(encoding="utf-8"))["rows"]
CLOSE = 1.05  # to the published range


def close_to(claim, value):
    return isinstance(value, (int, float)) and claim["least"] / CLOSE <= value <= claim["most"] * CLOSE


class Reproduce(InterfaceTest):
    def test_every_paper_is_there_and_speaks_of_cells_that_it_has(self):
        self.assertEqual({path.stem for path in PAPERS}, ASKED)
        machines = {path.stem for path in (ROOT / "results/machines").glob("*.json")}
        for path in PAPERS:
            paper = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(paper["name"], path.stem)
            self.assertTrue(paper["source"] and paper["claims"], path)
            figure = paper["figure"]
            drawn = [name for series in figure.get("series", []) for _, name in series["points"]]
            drawn += [name for _, bars in figure.get("bars", []) for _, name in bars]
            for name in drawn + [name for claim in paper["claims"] for name in variations.cell_names_of(claim)]:
                self.assertIn(name, paper["cells"], path)
            for claim in paper["claims"]:
                self.assertTrue("order" in claim or claim["least"] <= claim["most"], claim)
            for cell in paper["cells"].values():
                self.assertIn(cell["machine"] if isinstance(cell, dict) else paper["machine"], machines)

    def test_what_is_off_was_run_again_with_one_thing_changed(self):
        said = self.run_ok("reproduce", "--kept", str(ROOT / "results/papers/simulated"), "--markdown")
        off = {(paper, what) for paper, what in re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| .* \| off \|$", said)}
        self.assertEqual({(row["paper"], row["claim"]) for row in VARIATIONS}, off)
        for row in VARIATIONS:
            paper = json.loads((ROOT / f"results/papers/{row['paper']}.json").read_text(encoding="utf-8"))
            claim = next(each for each in paper["claims"] if each["name"] == row["claim"])
            self.assertRegex(claim["why"], "^(explained by|not explained): ")
            for tried in row["tried"]:
                self.assertEqual(len(variations.VARIATION_KINDS & set(tried)), 1, tried)
            if claim["why"].startswith("explained by"):
                self.assertTrue(any(close_to(claim, tried["ours"]) for tried in row["tried"]), row["claim"])

    def test_kept_variations_come_out_again(self):
        done = subprocess.run([sys.executable, ROOT / "python/start.py", "variations", "smartpool", "vdnn"], capture_output=True, text=True,
                              check=False, env=os.environ | {"UMBENCH_PROGRAM": PROGRAM})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("explained by: "), 2)

    def test_published_stand_beside_ours_with_a_verdict(self):
        said = self.run_ok("reproduce", "vdnn", "--out", "out", "--no-figure")
        self.assertIn("simulated on titanx-maxwell-12g, none of 44 figures measured", said)
        self.assertIn("Rhu et al., MICRO 2016", said)
        verdicts = re.findall(r"(?m)  (within|off|not run)$", said)
        paper = json.loads((ROOT / "results/papers/vdnn.json").read_text(encoding="utf-8"))
        self.assertEqual(len(verdicts), len(paper["claims"]))
        self.assertGreater(verdicts.count("within"), len(verdicts) // 2)
        for claim in paper["claims"]:  # what is off says why
            if re.search(rf"(?m)^  {re.escape(claim['name'])}  .* off$", said):
                self.assertIn(f"\n  {claim['name']}: {claim.get('why', 'not explained')}", said)
        records = [e for e in read_entries(self.folder / "out/vdnn.jsonl")[1]]
        self.assertEqual([r["outcome"] for r in records], ["ok"] * len(paper["cells"]))
        self.assertTrue(all(r["simulated"] for r in records))
        self.run_refused("reproduce", "vdnn", "--out", "out", words=["vdnn.jsonl", "exists", "--out"])

    def test_workspaces_leave_room_on_a_gpu(self):
        paper, cell = {"machine": "h200"}, ["--network", "alexnet"]
        self.assertEqual(reproduce.options_and_backend(paper, cell, ""), (cell, "sim:h200"))
        self.assertEqual(reproduce.options_and_backend(paper, cell, "cuda:0"), ([*cell, "--workspace-cap", "256MiB"], "cuda:0"))
        own = [*cell, "--workspace-cap", "1GiB"]
        self.assertEqual(reproduce.options_and_backend(paper, own, "cuda:0"), (own, "cuda:0"))

    def test_another_run_stands_beside(self):
        kept, none = str(ROOT / "results/papers/simulated"), str(self.folder)
        for folder, beside in ((kept, "1.041"), (none, "")):
            said = self.run_ok("reproduce", "vdnn", "--kept", kept, "--beside", folder, "--markdown")
            self.assertIn(f"| `vdnn` | VGG-16 of 256, dyn: slowdown | 1.08 to 1.28 | 1.041 | {beside} | off |", said)
        said = self.run_ok("reproduce", "vdnn", "--kept", kept, "--beside", kept, "--no-figure")
        self.assertRegex(said, r"(?m)^  VGG-16 of 256, dyn: slowdown +1.08 to 1.28 +1.041 +1.041 +off$")

    def test_another_backend_keeps_the_papers_capacity(self):
        said = self.run_ok("reproduce", "vdnn", "--out", "out", "--no-figure", "--backend", "sim:h200")
        self.assertIn("simulated on h200", said)
        records = read_entries(self.folder / "out/vdnn.jsonl")[1]
        self.assertEqual({(r["backend"], r["memory"]["budget_bytes"]) for r in records}, {("sim:h200", 12 * 10**9)})

    def test_a_cell_that_crashed_fails_it(self):
        done = self.umbench("reproduce", "smartpool", "--out", "out", "--no-figure", env={"UMBENCH_TEST_CELL": "abort:"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("crashed", done.stdout)

    def test_an_unknown_machine_is_refused_and_machines_may_be_named(self):
        self.run_refused("reproduce", "smartpool", "--backend", "sim:h20", "--out", "out", words=["sim:h20", "did you mean sim:h200?"])
        self.run_refused("reproduce", "smartpool", "--backend", "sim:nowhere", "--out", "out", words=["no machine file", "--machines DIR"])
        self.assertFalse((self.folder / "out").exists())
        machine = json.loads((ROOT / "results/machines/h200.json").read_text(encoding="utf-8")) | {"name": "mine"}
        (self.folder / "machines").mkdir()
        (self.folder / "machines/mine.json").write_text(json.dumps(machine), encoding="utf-8")
        said = self.run_ok("reproduce", "vdnn", "--backend", "sim:mine", "--machines", "machines", "--out", "out", "--no-figure")
        self.assertIn("simulated on mine", said)

    def test_what_is_no_paper(self):
        self.run_refused("reproduce", "vdn", words=["unknown paper \"vdn\"", "vdnn"])
