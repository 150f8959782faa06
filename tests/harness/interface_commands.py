"""What the commands print and write when all is well."""

import json
import os
import re

from interface import CELLS, ROOT, SPEC, InterfaceTest, read_entries

RUN = ["--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy"]


class List(InterfaceTest):
    def test_names_everything_with_its_knobs(self):
        shown = self.run_ok("list", "--all")
        for name in ["alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "conv", "device", "swap_all", "managed",
                     "managed_advise", "managed_prefetch", "h200", "p100-pcie3-16g"]:
            self.assertRegex(shown, rf"(?m)^  {re.escape(name)} ")
        self.assertIn("--set insize=224", shown)
        self.assertRegex(shown, r"--knob ahead=\d+ .*\(\d+ to \d+\)")

    def test_one_part(self):
        self.assertNotIn("vgg16", self.run_ok("list", "strategies"))
        self.assertNotIn("swap_all", self.run_ok("list", "networks"))

    def test_machines_of_a_folder_join_the_built_in_ones(self):
        machine = json.loads((ROOT / "results/machines/h200.json").read_text(encoding="utf-8"))
        folder = self.folder / "machines"
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps({**machine, "name": "small", "device_bytes": 2**30}), encoding="utf-8")
        shown = self.run_ok("list", "machines", "--machines", folder)
        self.assertIn("small", shown)
        self.assertIn("p100-pcie3-16g", shown)
        shown = self.run_ok("run", "--network", "alexnet", "--batch", "2", "--strategy", "device",
                            "--backend", "sim:small", "--machines", folder)
        self.assertIn("budget     1.00 GiB", shown)


class Validate(InterfaceTest):
    def validated_rows(self, *files):
        return re.findall(r"(?m)^\| (?:alexnet|vgg16) b.* \|$", self.run_ok("validate", *files))

    def test_runs_of_a_cell_are_one_row_and_those_of_another_build_are_not(self):
        kept = (ROOT / "results/validation/h200_host_2.jsonl").read_text(encoding="utf-8").splitlines()
        cells = sorted({json.loads(line)["key"] for line in kept if '"kind":"record"' in line})[:4]
        lines = [line for line in kept if '"kind":"record"' not in line or json.loads(line)["key"] in cells]
        one = self.write_file("one_build.jsonl", "\n".join(lines) + "\n")
        self.assertGreater(len(lines), 2 * len(cells))
        self.assertEqual(len(self.validated_rows(one)), len(cells))
        other = self.folder / "two_builds.jsonl"
        build = json.loads(lines[0])["umbench"]
        other.write_text("\n".join(lines + [line.replace(build, build + ".dirty") for line in lines]) + "\n",
                         encoding="utf-8")
        self.assertEqual(len(self.validated_rows(other)), 2 * len(cells))


class Env(InterfaceTest):
    def test_for_people(self):
        shown = self.run_ok("env")
        for word in ["umbench", "kernel", "cores", "memory", "GPU"]:
            self.assertRegex(shown, rf"(?m)^{word} ")

    def test_as_json(self):
        line = json.loads(self.run_ok("env", "--json"))
        self.assertEqual(line["kind"], "environment")
        self.assertGreaterEqual(line["host"]["cores"], 1)
        self.assertGreater(line["host"]["memory_bytes"], 0)
        self.assertRegex(line["umbench"], r"^\d+\.\d+\.\d+\+")
        if not os.path.exists("/proc/driver/nvidia/version"):
            self.assertIsNone(line["gpu"])


    def test_what_the_link_allows(self):
        shown = self.run_ok("env", "--machine", "h200")
        self.assertRegex(shown, r"(?m)^link of machine file h200, ")
        self.assertRegex(shown, r"(?m)^  pinned copy to the device +[\d.]+ GB/s +100 %$")
        self.assertRegex(shown, r"(?m)^  kernel faults, data never seen +[\d.]+ GB/s +\d+ %$")
        self.assertNotIn("link of", self.run_ok("env"))


class Run(InterfaceTest):
    def test_a_summary_that_says_simulated(self):
        shown = self.run_ok("run", *RUN, "managed", "--ratio", "1.5")
        self.assertTrue(shown.startswith("alexnet/b2/train/fused/fp32/managed/x1.50/simulated/sim:h200\n"))
        self.assertIn("simulated on machine file h200", shown)
        for row in ["outcome    ok", "footprint ", "budget ", "arenas ", "iteration ", "operators ", "moved "]:
            self.assertIn(row, shown)

    def test_every_counter_of_a_simulated_cell_is_known(self):
        for strategy, ratio, goes_both_ways in [("device", "1", False), ("managed", "0.5", False),
                                                ("managed", "2", True), ("swap_all", "1", True)]:
            shown = self.run_ok("run", *RUN, strategy, "--ratio", ratio, "--iterations", "4", "--out", "known.jsonl")
            record = read_entries(self.folder / "known.jsonl")[1][-1]
            first, last = record["counters"]["first"], record["counters"]["last"]
            self.assertEqual([name for name, value in first.items() if value is None], [])
            self.assertIsNone(record["counters_reason"])
            moved = sum(value for name, value in last.items() if name.endswith("_bytes") and name != "remote_bytes")
            self.assertEqual(last["amplification"], moved / record["memory"]["touched_bytes"])
            self.assertEqual(last["amplification"] > 0, goes_both_ways, record["key"])
            self.assertIn(f"({last['amplification']:.2f} times what is touched)", shown)
            self.assertGreater(record["memory"]["touched_bytes"], record["memory"]["footprint_bytes"] / 2)

    def test_what_is_estimated_says_so_wherever_it_is_shown(self):
        machine = json.loads((ROOT / "results/machines/h200.json").read_text(encoding="utf-8"))
        (self.folder / "files").mkdir()
        for name, left in [("whole", []), ("partly", ["uvm.evict_ns"])]:
            self.write_file(f"files/{name}.json", machine | {"name": name, "calibrated": True, "estimated": left})
            on = ("--machines", self.folder / "files")
            flag, rates = (("not calibrated", "estimated rates") if left else ("calibrated", "calibrated rates"))
            cell = ["run", *RUN[:-3], "--backend", f"sim:{name}", *on, "--ratio", "1.5"]
            shown = self.run_ok(*cell, "--strategy", "managed", "--out", f"{name}.jsonl")
            self.assertIn(f"simulated on machine file {name}, figures {flag}\n", shown)
            self.assertIs(read_entries(self.folder / f"{name}.jsonl")[1][0]["calibrated"], not left)
            ablated = self.run_ok("ablate", *cell[1:], "--iterations", "2", "--out", f"{name}_ablation.jsonl")
            self.assertIn(f"machine file {name}, figures {flag}\n", ablated)
            grids = [{"network": "alexnet", "strategy": "managed", "ratio": 1, "backend": f"sim:{name}"}]
            swept = self.run_ok("sweep", self.write_sweep(grids=grids), *on, "--out", f"{name}_sweep.jsonl")
            self.assertRegex(swept, rf"{name}, simulated, " + ("[0-9]+ of [0-9]+ figures measured|estimated rates" if left else "calibrated rates"))
            listed = " ".join(self.run_ok("list", "machines", *on).split())
            self.assertRegex(listed, rf" {name} [^;]*; {flag}(, 1 of its figures estimated)?\. ")
            self.assertRegex(self.run_ok("env", "--machine", name, *on), rf"(?m)^link of machine file {name}, {flag}(, 1 .*)?$")
            figure = {"name": "n", "source": "s", "least": 1, "most": 2, "unit": "GB/s", "input": False, "machine": name,
                      "pattern": "stream_read"}
            validated = self.run_ok("validate", self.write_file("f.json", {"schema": 1, "figures": [figure]}), *on)
            self.assertRegex(validated, rf"(?m)^machine file {name}: {flag}(, 1 of its figures estimated)?$")
            for kind in ("google-benchmark", "github-action"):
                self.assertIn(rates, self.run_ok("export", f"{name}.jsonl", "--format", kind))
            self.assertIn(rates, self.run_ok("compare", f"{name}.jsonl", f"{name}.jsonl"))

    def test_validate_goes_on_behind_a_cell_that_has_no_plan(self):
        figure = {"name": "n", "source": "s", "least": 1, "most": 99, "unit": "times", "input": False, "machine": "h200",
                  "network": "alexnet", "batch": 16, "pass": "train", "fusion": "none", "knobs": {}, "ratio": 1.5, "strategy": "managed"}
        figures = [figure | {"over": "device"}, figure | {"name": "m", "over": "compute"}]
        told = self.run_ok("validate", self.write_file("f.json", {"schema": 1, "figures": figures}))
        self.assertRegex(told, r"(?m)^\| h200 \| n \| 1.00x to 99.00x \| not run \|  \|  \| not run: .*device.*\|$")
        self.assertIn("| h200 | m |", told)
        self.assertIn("what it was not: 2 figures, 1 not run, median", told)
        self.assertIn("1 of 2 figures that it was not worked out from are within 1.5x", told)

    def test_records_are_appended(self):
        for strategy in ["device", "managed", "managed"]:
            self.run_ok("run", *RUN, strategy, "--ratio", "1", "--iterations", "3", "--out", "a.jsonl")
        environments, records = read_entries(self.folder / "a.jsonl")
        self.assertEqual(len(environments), 1)
        self.assertEqual([record["strategy"] for record in records], ["device", "managed", "managed"])
        self.assertEqual(records[1], records[2])
        self.assertEqual(len(records[0]["samples_ns"]), 3)
        self.assertIsNone(records[0]["timeline"])
        self.assertTrue(all(record["simulated"] for record in records))

    def test_the_budget_is_the_footprint_over_the_ratio(self):
        self.run_ok("run", *RUN, "managed", "--ratio", "1.5", "--out", "a.jsonl")
        memory = read_entries(self.folder / "a.jsonl")[1][0]["memory"]
        self.assertEqual(memory["budget_bytes"], int(memory["footprint_bytes"] / 1.5))
        self.assertEqual(memory["footprint_bytes"], sum(memory["terms"].values()))

    def test_a_budget_has_its_ratio_worked_out(self):
        self.run_ok("run", *RUN, "managed", "--budget", "300MiB", "--out", "a.jsonl")
        record = read_entries(self.folder / "a.jsonl")[1][0]
        self.assertAlmostEqual(record["ratio"], record["memory"]["footprint_bytes"] / (300 * 2**20))
        self.assertIn(f"/{300 * 2**20}B/", record["key"])

    def test_a_timeline_if_asked_for(self):
        self.run_ok("run", *RUN, "swap_all", "--ratio", "1", "--timeline", "--out", "a.jsonl")
        record = read_entries(self.folder / "a.jsonl")[1][0]
        timeline = record["timeline"]
        self.assertEqual(timeline["iteration"], 4)
        self.assertEqual({span["lane"] for span in timeline["spans"]}, {"compute", "to_device", "to_host"})
        self.assertLessEqual(max(span["end_ns"] for span in timeline["spans"]), record["samples_ns"][-1])
        self.assertTrue(timeline["resident"])

    def test_capped_is_allowed_on_a_simulated_machine(self):
        shown = self.run_ok("run", *RUN, "managed", "--ratio", "1.5", "--mode", "capped")
        self.assertIn("/capped/sim:h200", shown)
        self.assertIn("outcome    ok", shown)


class Levels(InterfaceTest):
    """Fusion, precision and memory order."""

    def test_a_record_says_which(self):
        for more_options, key, stored in [
                ([], "fused/fp32", ("fused", "fp32", "nchw")),
                (["--fusion", "none", "--precision", "tf32"], "none/tf32", ("none", "tf32", "nhwc")),
                (["--fusion", "lean", "--precision", "bf16", "--memory-order", "nchw"], "lean/bf16,nchw",
                 ("lean", "bf16", "nchw"))]:
            shown = self.run_ok("run", *RUN, "managed", "--ratio", "1.5", *more_options, "--out", "a.jsonl")
            self.assertTrue(shown.startswith(f"alexnet/b2/train/{key}/managed/x1.50/"), shown)
            record = read_entries(self.folder / "a.jsonl")[1][-1]
            self.assertEqual((record["fusion"], record["precision"], record["memory_order"]), stored)
            self.assertIsNone(record["launch"])

    def test_they_change_what_is_simulated(self):
        def time_and_footprint(*more_options):
            self.run_ok("run", "--network", "vgg16", "--batch", "64", "--backend", "sim:h200", "--strategy", "device",
                        *more_options, "--out", "a.jsonl")
            record = read_entries(self.folder / "a.jsonl")[1][-1]
            return record["samples_ns"][-1], record["memory"]["footprint_bytes"]

        apart, fused = time_and_footprint("--fusion", "none"), time_and_footprint()
        tf32, bf16 = time_and_footprint("--precision", "tf32"), time_and_footprint("--precision", "bf16")
        self.assertTrue(fused[0] < apart[0] and fused[1] < apart[1])
        self.assertLess(tf32[0], fused[0])
        self.assertTrue(bf16[0] < tf32[0] and bf16[1] < tf32[1])

    def test_branching_networks_run_at_every_level(self):
        branching = {"network": "resnet20_cifar", "batch": 8,
                     "strategy": ["device", "swap_all", "managed", "managed_advise", "managed_prefetch"]}
        self.run_ok("sweep", self.write_sweep(grids=[
            branching | {"fusion": ["none", "lean"], "precision": ["fp32", "bf16"], "ratio": 1.5, "mode": "simulated"},
            branching | {"ratio": [1, 1.5], "mode": "capped"}]))
        records = read_entries(self.folder / "study.jsonl")[1]
        self.assertEqual(len(records), 5 * (2 * 2 + 2))
        for record in records:
            self.assertIn(record["outcome"], ["ok", "infeasible"])
            if (record["strategy"], record["mode"]) == ("managed", "simulated"):
                self.assertEqual(record["outcome"], "ok", record["key"])

    def test_a_plan_keeps_them(self):
        levels = ["--fusion", "lean", "--precision", "bf16", "--memory-order", "nchw"]
        shown = self.run_ok("plan", *RUN, "swap_all", *levels, "-o", "plan.json", "--graph", "graph.json")
        self.assertIn("lean, bf16,nchw", shown)
        network = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))["network"]
        self.assertEqual((network["fusion"], network["precision"], network["memory_order"]), ("lean", "bf16", "nchw"))
        graph = json.loads((self.folder / "graph.json").read_text(encoding="utf-8"))
        self.assertEqual(graph["precision"], "bf16")
        self.assertIn("bf16", {tensor["type"] for tensor in graph["tensors"]})
        self.assertEqual({tensor["order"] for tensor in graph["tensors"]}, {"nchw"})
        shown = self.run_ok("run", "--plan", "plan.json", "--backend", "sim:h200")
        self.assertRegex(shown, "^alexnet/b2/train/lean/bf16,nchw/plan:swap_all#[0-9a-f]{6},")

    def test_the_list_shows_them(self):
        shown = self.run_ok("list", "networks")
        for row in [r"--fusion +fused ", r" +none ", r" +lean ", r"--precision +fp32 ", r" +tf32 ", r" +bf16 ",
                    r"--memory-order +nchw ", r" +nhwc "]:
            self.assertRegex(shown, rf"(?m)^  {row}")


class Plan(InterfaceTest):
    def test_a_plan_runs_elsewhere_as_it_would_have_here(self):
        for strategy, mode in [("swap_all", "simulated"), ("managed_prefetch", "simulated"), ("managed", "capped")]:
            out = self.folder / f"{strategy}.jsonl"
            shown = self.run_ok("plan", *RUN, strategy, "--ratio", "1", "--mode", mode, "-o", "plan.json")
            self.assertIn(" compute\n", shown)
            self.run_ok("run", *RUN, strategy, "--ratio", "1", "--mode", mode, "--out", out)
            self.run_ok("run", "--plan", "plan.json", "--backend", "sim:h200", "--out", out)
            direct, planned = read_entries(out)[1]
            self.assertRegex(planned["strategy"], f"^plan:{strategy}#[0-9a-f]{{6}}$")
            same = [field for field in direct if field not in ("key", "strategy", "rules")]
            self.assertEqual({f: direct[f] for f in same}, {f: planned[f] for f in same})
            self.run_ok("run", "--plan", "plan.json", "--backend", "sim:p100-pcie3-16g")

    def test_best_managed_leaves_room_for_whole_blocks(self):
        """Where its search finds nothing, others decide for less than the budget."""
        cell = ["--network", "alexnet", "--batch", "128", "--precision", "bf16", "--ratio", "1.25", "--mode", "capped",
                "--backend", "sim:h200", "--knob", "effort=0"]
        self.assertIn("managed", self.run_ok("plan", *cell, "--strategy", "best_managed", "-o", "plan.json"))

    def test_plan_and_graph_on_standard_output(self):
        plan = json.loads(self.run_ok("plan", *RUN, "swap_all", "-o", "-"))
        self.assertEqual(plan["kind"], "plan")
        graph = json.loads(self.run_ok("plan", *RUN, "swap_all", "--graph", "-"))
        self.assertEqual({tensor["name"] for tensor in graph["tensors"]}, set(plan["homes"]))


class Sweep(InterfaceTest):
    def test_a_dry_run_tells_memory_and_time_and_touches_nothing(self):
        spec = self.write_sweep()
        lines = self.run_ok("sweep", spec, "--dry-run").splitlines()
        self.assertRegex(lines[0], r"^ +device +host +time +cell$")
        self.assertRegex(lines[1], r"^ *\d\S* \wiB +0 B +\S+ [mu]?s  alexnet/b2/train/fused/fp32/device/x0.50/")
        self.assertEqual(sum(line.split()[0] == "infeasible" for line in lines), 8)
        self.assertRegex(lines[-2], rf"^{CELLS} cells; at most .*; 8 end without a time$")
        self.assertRegex(lines[-1], rf"^{CELLS} simulated: iterations of .* together; to simulate them takes about ")
        self.assertEqual(len(lines), CELLS + 3)
        self.assertEqual(list(self.folder.iterdir()), [spec])

    def test_a_dry_run_foresees_what_a_simulated_sweep_takes(self):
        spec = self.write_sweep(common={**SPEC["common"], "iterations": 6},
                                grids=[{"network": "alexnet", "strategy": ["managed", "swap_all"], "ratio": [1, 1.5]}])
        done = self.umbench("sweep", spec, "--dry-run", "--jobs", "2")
        text = done.stdout.splitlines()[-1]
        self.assertIn("[4/4] alexnet", done.stderr)
        self.assertIn(", 2 at a time", text)
        self.run_ok("sweep", spec)
        records = read_entries(self.folder / "study.jsonl")[1]
        times = sum(sum(record["samples_ns"]) for record in records)
        number, unit = re.search(r"of (\S+) (\w+) together", text).groups()
        self.assertAlmostEqual(float(number) * {"s": 1e9, "ms": 1e6, "us": 1e3}[unit] / times, 1, delta=0.02)

    def test_a_gpus_cells_are_estimated_without_one(self):
        spec = self.write_sweep(grids=[{"network": "alexnet", "batch": 64, "backend": "cuda:0", "workspace_cap": "16MiB",
                                        "strategy": ["managed", "swap_all"], "ratio": [0.5, 1]}])
        shown = self.run_ok("sweep", spec, "--dry-run", "--like", "p100-pcie3-16g")
        self.assertEqual(len(re.findall(r"(?m)^ *\d.* m?s  alexnet/.*/capped/cuda:0$", shown)), 4)
        self.assertIn("estimated on the simulated machine p100-pcie3-16g", shown)
        self.run_refused("sweep", spec, "--dry-run", "--like", "h20", words=["did you mean h200?"])

    def test_what_cannot_fit_this_host_is_said(self):
        spec = self.write_sweep(grids=[{"network": "vgg16", "batch": 2048, "backend": "cuda:0", "ratio": 1,
                                        "strategy": "swap_all"}])
        shown = self.run_ok("sweep", spec, "--dry-run")
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if total > 70 * 2**30:
            self.skipTest("this host is too large")
        self.assertIn("1 of 1 cells do not fit here and will not run, such as vgg16/", shown)
        self.assertRegex(shown, r"it needs [\d.]+ GiB of host memory \([\d.]+ GiB pinned\) and may take")

    def test_a_list_names_the_cells_and_touches_nothing(self):
        spec = self.write_sweep()
        lines = self.run_ok("sweep", spec, "--list").splitlines()
        self.assertEqual(lines[0], "alexnet/b2/train/fused/fp32/device/x0.50/simulated/sim:h200")
        self.assertEqual(lines[-1], f"{CELLS} cells")
        self.assertEqual(len(set(lines)), CELLS + 1)
        self.assertEqual(list(self.folder.iterdir()), [spec])

    def test_shards_share_the_cells(self):
        spec = self.write_sweep()
        whole = self.run_ok("sweep", spec, "--list").splitlines()[:-1]
        parts = [self.run_ok("sweep", spec, "--list", "--shard", f"{i}/5").splitlines()[:-1] for i in range(1, 6)]
        self.assertEqual(sorted(sum(parts, [])), sorted(whole))

    def test_records_progress_and_table(self):
        done = self.umbench("sweep", self.write_sweep())
        self.assertEqual(done.returncode, 0, done.stderr)
        environments, records = read_entries(self.folder / "study.jsonl")
        self.assertEqual(len(environments), 1)
        progress = done.stderr.splitlines()
        self.assertEqual(len(progress), CELLS)
        for number, (line, record) in enumerate(zip(progress, records), start=1):
            self.assertTrue(line.startswith(f"[{number:2}/{CELLS}] {record['key']} ... "), line)
            self.assertRegex(line, r", \d\d:\d\d left$")
        self.assertRegex(done.stdout, r"(?m)^ratio +0\.5 +1 +1\.5 +2$")
        self.assertRegex(done.stdout, r"(?m)^device +1\.00x +1\.00x +no fit +no fit$")
        self.assertIn("h200, simulated", done.stdout)

    def test_the_number_of_jobs_changes_nothing(self):
        spec = self.write_sweep()
        for jobs in ["1", "2", "7"]:
            self.run_ok("sweep", spec, "--jobs", jobs, "--out", f"{jobs}.jsonl")
        one, two, seven = (read_entries(self.folder / f"{jobs}.jsonl")[1] for jobs in ["1", "2", "7"])
        self.assertEqual(one, two)
        self.assertEqual(one, seven)

    def test_resuming_a_finished_sweep_does_nothing(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec)
        before = (self.folder / "study.jsonl").read_bytes()
        done = self.umbench("sweep", spec, "--resume")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"{CELLS} of {CELLS} cells are in study.jsonl already", done.stderr)
        self.assertIn("swap_all", done.stdout)
        self.assertEqual((self.folder / "study.jsonl").read_bytes(), before)

    def test_every_sweep_file_of_the_project_expands(self):
        for spec in sorted((ROOT / "benchmarks/sweeps").glob("*.json")):
            self.assertRegex(self.run_ok("sweep", spec, "--list"), r"\n\d+ cells\n$")

    def test_the_small_study_is_as_large_as_it_should_be(self):
        cells = self.run_ok("sweep", ROOT / "benchmarks/sweeps/small.json", "--list").splitlines()[:-1]
        self.assertEqual(len(cells), 2 * 5 * 8 * 2)


class Schema(InterfaceTest):
    def test_lines_are_of_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("jsonschema is not installed")
        schema = json.loads((ROOT / "results/record.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        grids = [{"network": "alexnet", "strategy": ["device", "swap_all", "managed"], "ratio": [1, 2],
                  "precision": ["fp32", "bf16"], "timeline": True}]
        done = self.umbench("sweep", self.write_sweep(grids=grids), env={"UMBENCH_TEST_CELL": "abort:managed/x2"})
        self.assertEqual(done.returncode, 1)
        environments, records = read_entries(self.folder / "study.jsonl")
        self.assertEqual({record["outcome"] for record in records}, {"ok", "infeasible", "crashed"})
        for line in environments + records:
            validator.validate(line)
            self.assertFalse(validator.is_valid({**line, "surplus": 1}))
            self.assertFalse(validator.is_valid({name: line[name] for name in line if name != "schema"}))

    def test_strategies_say_all_that_scripts_ask(self):
        rows = json.loads(self.run_ok("list", "strategies", "--json"))["strategies"]
        self.assertEqual({row["family"] for row in rows}, {"device", "explicit", "managed"})
        self.assertEqual([row["name"] for row in rows if row["family"] == "device"][0], "device")
        for row in rows:
            self.assertIn(row["bits"], ("same", "rounding"), row["name"])
        self.run_refused("list", "--json", words=["strategies"])
