"""Bad input gives one clear line and the right exit code."""

import json
import os
import re
import resource

from interface import ROOT, InterfaceTest, read_entries

RUN = ["run", "--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy"]


def without_option(arguments, option):
    at = arguments.index(option)
    return arguments[:at] + arguments[at + 2:]


class CommandLine(InterfaceTest):
    def test_unknown_names_are_answered_by_known_ones(self):
        run = without_option(RUN[:-1], "--network")
        self.run_refused(*run, "--strategy", "managed", "--network", "alexnett",
                         words=["\"alexnett\"", "did you mean alexnet?", "vgg16", "a graph file of your own"])
        self.run_refused(*RUN, "manged", words=["\"manged\"", "did you mean managed?", "swap_all"])
        self.run_refused(*without_option(RUN[:-1], "--backend"), "--strategy", "managed", "--backend", "sim:h20",
                         words=["machine", "\"h20\"", "did you mean h200?"])
        self.run_refused(*without_option(RUN[:-1], "--backend"), "--strategy", "managed", "--backend", "metal:0",
                         words=["metal:0", "sim:NAME", "cuda:N"])
        self.run_refused("lst", words=["\"lst\"", "did you mean list?"])
        self.run_refused("list", "planets", words=["planets", "networks"])

    def test_what_cannot_be_calibrated(self):
        self.run_refused("calibrate", words=["--out"])
        self.run_refused("calibrate", "--out", "a.json", "--backend", "sim:h200", words=["sim:h200", "cuda:N"])
        self.run_refused("calibrate", "--out", "Mine.json", words=["Mine", "lower-case"])
        self.run_refused("calibrate", "--out", "a.json", "--name", "a b", words=["a b", "lower-case"])
        self.run_refused("calibrate", "--out", "nowhere/a.json", words=["nowhere/a.json", "no folder"])
        self.run_refused("calibrate", "--out", "a.json", "--like", "h20", words=["\"h20\"", "did you mean h200?"])
        if not os.path.exists("/proc/driver/nvidia/version"):
            self.run_refused("calibrate", "--out", "a.json", words=["sim:NAME"])
        self.assertFalse((self.folder / "a.json").exists())

    def test_a_link_needs_one_machine(self):
        self.run_refused("env", "--machine", "h20", words=["\"h20\"", "did you mean h200?"])
        self.run_refused("env", "--json", "--machine", "h200", words=["--machine", "--json"])

    def test_unknown_knobs(self):
        self.run_refused(*RUN, "managed", "--set", "insze=224", words=["insze", "insize"])
        self.run_refused(*RUN, "swap_all", "--knob", "ahed=2", words=["ahed", "ahead"])
        self.run_refused(*RUN, "swap_all", "--knob", "ahead=-1", words=["ahead", "-1"])
        self.run_refused(*RUN, "swap_all", "--knob", "ahead", words=["ahead", "name=value"])
        self.run_refused(*RUN, "swap_all", "--knob", "ahead=1", "--knob", "ahead=2", words=["twice"])

    def test_levels_that_are_none(self):
        self.run_refused(*RUN, "device", "--fusion", "fussed", words=["--fusion", "\"fussed\"", "did you mean fused?", "lean"])
        self.run_refused(*RUN, "device", "--precision", "fp16", words=["--precision", "\"fp16\"", "did you mean", "bf16"])
        self.run_refused(*RUN, "device", "--memory-order", "hcwn", words=["--memory-order", "\"hcwn\"", "nchw, nhwc"])
        for option in ["--fusion", "--precision", "--memory-order"]:
            self.run_refused(*RUN, "device", option, "", words=[option])
            self.run_refused(*RUN, "device", option, "NONE", words=[option])
            self.run_refused("plan", *RUN[1:], "device", option, "x", words=[option])

    def test_a_precision_that_a_machine_lacks(self):
        run = without_option(RUN, "--backend")
        for precision in ["tf32", "bf16"]:
            on = ["--backend", "sim:p100-pcie3-16g", "--precision", precision]
            words = ["unsupported", "p100-pcie3-16g", precision]
            self.run_refused(*run, "device", *on, "--out", "a.jsonl", exit_code=1, words=words)
            self.run_refused("plan", *run[1:], "device", *on, exit_code=1, words=words)
        records = read_entries(self.folder / "a.jsonl")[1]
        self.assertEqual([record["outcome"] for record in records], ["unsupported"] * 2)
        self.assertTrue(all(record["samples_ns"] == [] for record in records))

    def test_values_where_there_are_none_or_no_place_for_them(self):
        self.run_refused(*RUN, "device", "--values", "v", words=["--values", "sim:h200", "cuda:N"])
        self.assertFalse((self.folder / "v").exists())
        run = [*without_option(RUN, "--backend"), "device", "--backend", "cuda:0", "--values"]
        self.run_refused(*run, self.write_file("file", "x"), words=["--values", "file"])
        self.run_refused(*run, self.folder / "file" / "v", words=["--values", "file/v"])
        self.run_refused(*run, "/proc/v", words=["--values", "/proc/v"])
        self.run_refused(*run, "", words=["--values"])
        self.run_refused("plan", *RUN[1:], "device", "--values", "v")

    def test_missing_and_surplus_words(self):
        self.run_refused()
        for command in ("run", "plan", "tune", "ablate", "advise"):
            self.run_refused(command, words=["--network is missing"])
        self.run_refused(*RUN[:-1], words=["--strategy is missing"])
        self.run_refused(*without_option(RUN, "--backend"), "device", words=["--backend is missing"])
        self.run_refused(*RUN, "device", "more")
        self.run_refused(*RUN, "device", "--batchsize", "4", words=["--batchsize: unknown option; did you mean --batch?"])
        self.run_refused("compare", "--fomat", "json", "a", "b", words=["--fomat: unknown option; did you mean --format?"])
        self.run_refused("merge", "--ot", "x.jsonl", words=["--ot: unknown option; did you mean --out?"])  # before what is missing
        self.run_refused("report", "--titel", "x", "a", words=["--titel: unknown option; did you mean --title?"])
        self.run_refused("trace", "--outt", "x", "--", "true", words=["--outt: unknown option; did you mean --out?"])
        self.run_refused("fit", "--buget", "1GiB", "a.py:f", words=["--buget: unknown option; did you mean --budget?"])
        self.run_refused(*RUN, "device", "--frobnicate", words=["--frobnicate: unknown option; see umbench run --help"])
        self.run_refused(*RUN, "device", "--iteration=3", words=["--iteration: unknown option; did you mean --iterations?"])
        self.run_refused("sweep")

    def test_the_help_that_is_named_is_the_command_s(self):
        self.run_refused("calibrate", words=["--out is required; see umbench calibrate --help"])
        self.run_refused("run", "--network", "vgg16", "--network", "alexnet", words=["--network is given more than once; keep one; see umbench run"])
        self.run_refused("--frob", words=["see umbench --help"])

    def test_sizes_that_are_none(self):
        run = without_option(RUN, "--batch")
        for batch in ["-1", "0", "1.5", "1e3", "many", "", str(2**63), str(2**64), "9" * 40]:
            self.run_refused(*run, "device", "--batch", batch, words=["--batch"])
        self.run_refused(*run, "device", "--batch", str(2**63 - 1), words=["2^63"])
        self.run_refused(*RUN, "device", "--insize", "225", words=["225", "multiple"])
        for ratio in ["0", "-1", "0.09", "65", "nan", "inf", "x", ""]:
            self.run_refused(*RUN, "device", "--ratio", ratio, words=["--ratio"])
        for budget in ["0", "-1GiB", "GiB", "4 lightyears", str(2**64), "99999999TiB", ""]:
            self.run_refused(*RUN, "device", "--budget", budget, words=["--budget"])
        for option in ["--iterations", "--deadline"]:
            for number in ["0", "-1", "x", str(2**63)]:
                self.run_refused(*RUN, "device", option, number, words=[option])

    def test_a_ratio_and_a_budget(self):
        self.run_refused(*RUN, "device", "--ratio", "1", "--budget", "1GiB", words=["both", "keep one"])

    def test_modes_that_a_backend_does_not_have(self):
        self.run_refused(*RUN, "device", "--mode", "native", words=["native", "sim:h200"])
        self.run_refused(*RUN, "device", "--mode", "real", words=["\"real\"", "capped"])
        run = [*without_option(RUN, "--backend"), "device", "--backend", "cuda:0"]
        self.run_refused(*run, "--mode", "simulated", words=["simulated", "use capped"])
        self.run_refused(*run, "--mode", "native", words=["hang", "--allow-native-oversubscription"])

    def test_no_gpu(self):
        if os.path.exists("/proc/driver/nvidia/version"):
            self.skipTest("this machine may have a GPU")
        self.run_refused(*without_option(RUN, "--backend"), "device", "--backend", "cuda:0", words=["sim:NAME"])
        self.run_refused("plan", *without_option(RUN, "--backend")[1:], "device", "--backend", "cuda:0", words=["sim:NAME"])
        spec = self.write_sweep(common={"backend": ["sim:h200", "cuda:0"]})
        self.run_refused("sweep", spec, words=["sim:NAME"])


class Infeasible(InterfaceTest):
    """A result, not a failure: exit code 4, and the reason with its figures."""

    def run_infeasible(self, *arguments):
        done = self.umbench(*arguments)
        self.assertEqual(done.returncode, 4, done.stderr)
        return done.stdout

    def test_a_budget_below_the_largest_operator(self):
        for strategy in ["device", "managed", "managed_advise", "managed_prefetch", "swap_all"]:
            shown = self.run_infeasible(*RUN, strategy, "--budget", "1MiB", "--mode", "capped")
            self.assertIn("infeasible: ", shown)
            self.assertIn("1.00 MiB", shown)
            done = self.umbench("plan", *RUN[1:], strategy, "--budget", "1MiB", "--mode", "capped", "-o", "p.json")
            self.assertEqual(done.returncode, 1)
            self.assertIn("infeasible", done.stderr)
            self.assertFalse((self.folder / "p.json").exists())

    def test_a_budget_above_the_device(self):
        shown = self.run_infeasible(*RUN, "device", "--budget", "1TiB")
        self.assertIn("infeasible: ", shown)
        self.assertIn("h200", shown)

    def test_a_network_that_no_machine_holds(self):
        shown = self.run_infeasible(*without_option(RUN, "--batch"), "managed", "--batch", str(10**10))
        self.assertIn("infeasible: ", shown)


class Files(InterfaceTest):
    def test_sweeps(self):
        self.run_refused("sweep", "absent.json", words=["absent.json", "No such file"])
        self.run_refused("sweep", self.folder, words=["is a folder"])
        self.run_refused("sweep", self.write_file("a.json", ""), words=["a.json", "not JSON"])
        self.run_refused("sweep", self.write_file("a.json", "{\"schema\": 1,"), words=["a.json", "line 1"])
        self.run_refused("sweep", self.write_file("a.json", "[" * 100000), words=["a.json"])
        self.run_refused("sweep", self.write_sweep(grid=[]), words=["unknown field \"grid\"", "did you mean grids?"])
        for field, value in [("strategy", "manged"), ("network", "alexnett"), ("backend", "sim:h20")]:  # others: study/sweep_test.cpp
            grid = {"network": "alexnet", "strategy": "device", "backend": "sim:h200", field: value}
            self.run_refused("sweep", self.write_file("a.json", {"schema": 1, "name": "a", "grids": [grid]}))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.json", "study.json"])

    def test_sweep_options(self):
        spec = self.write_sweep()
        for shard in ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"]:
            self.run_refused("sweep", spec, "--list", "--shard", shard, words=["--shard"])
        for jobs in ["0", "-1", "x"]:
            self.run_refused("sweep", spec, "--list", "--jobs", jobs, words=["--jobs"])

    def test_plans(self):
        self.run_ok("plan", *RUN[1:], "managed_prefetch", "--ratio", "1.5", "-o", "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        run = ["run", "--backend", "sim:h200", "--plan"]

        def refuse_changed_plan(words, **changes):
            self.run_refused(*run, self.write_file("broken.json", {**plan, **changes}), words=["broken.json", *words])

        refuse_changed_plan(["homes", "missing"], homes={})
        refuse_changed_plan(["network", "alexnett"], network={**plan["network"], "name": "alexnett"})
        refuse_changed_plan(["network.fusion", "did you mean fused?"], network={**plan["network"], "fusion": "fussed"})
        refuse_changed_plan(["2^63"], network={**plan["network"], "batch": 2**63 - 1})
        refuse_changed_plan(["strategy_knobs", "behind"], strategy_knobs={"behind": 1})
        refuse_changed_plan(["strategy_knobs", "ahead", "65"], strategy_knobs={"ahead": 65})
        text = (self.folder / "plan.json").read_text(encoding="utf-8")
        self.run_refused(*run, self.write_file("broken.json", text[:len(text) // 2]), words=["broken.json", "not JSON"])
        self.run_refused(*run, "absent.json", words=["absent.json"])
        self.run_refused(*run, "plan.json", "--ratio", "2", words=["--ratio", "--plan"])
        self.run_refused(*run, "plan.json", "--batch", "2", words=["--batch", "--plan"])
        for option, value in [("--fusion", "fused"), ("--precision", "fp32"), ("--memory-order", "nchw")]:
            self.run_refused(*run, "plan.json", option, value, words=[option, "--plan"])
        self.run_refused("run", "--backend", "cuda:0", "--plan", "plan.json", words=["plan.json", "mode simulated"])

    def test_machines(self):
        self.run_refused("list", "machines", "--machines", "absent", words=["absent", "--machines"])
        folder = self.folder / "machines"
        folder.mkdir()
        (folder / "x.json").write_text("{\"schema\": 1, \"name\": \"x\"}", encoding="utf-8")
        self.run_refused("list", "--machines", folder, words=["x.json", "missing"])

    def test_a_machine_too_slow_for_the_clock(self):
        machine = json.loads((ROOT / "results" / "machines" / "h200.json").read_text(encoding="utf-8"))
        machine.update(name="slow", fp32_flops_per_s=1)
        (self.folder / "machines").mkdir()
        self.write_file("machines/slow.json", machine)
        self.run_refused("run", "--network", "vgg16", "--batch", 64, "--strategy", "managed", "--ratio", 1.5,
                         "--backend", "sim:slow", "--machines", self.folder / "machines", exit_code=1,
                         words=["unsupported", "a time beyond 2^63 ns"])

    def test_figures(self):
        figure = {"name": "n", "source": "s", "least": 1, "most": 2, "unit": "GB/s", "input": False, "machine": "h200"}
        for pattern in ("", "nope"):
            path = self.write_file("f.json", {"schema": 1, "figures": [{**figure, "pattern": pattern}]})
            self.run_refused("validate", path, words=["unknown pattern"])
        self.run_refused("validate", self.write_file("f.json", {"schema": 1, "figures": [figure]}), words=["f.json", "network"])

    def test_a_file_that_holds_something(self):
        diary = self.write_file("diary.txt", "dear diary")
        for more in [[], ["--resume"]]:
            self.run_refused("sweep", self.write_sweep(), "--out", diary, *more, words=["diary.txt"])
        self.run_refused(*RUN, "device", "--out", diary, words=["diary.txt"])
        self.assertEqual(diary.read_text(encoding="utf-8"), "dear diary")
        self.run_ok(*RUN, "device", "--out", "a.jsonl")
        self.run_refused("sweep", self.write_sweep(), "--out", "a.jsonl", words=["a.jsonl", "--resume"])
        self.assertEqual(len(read_entries(self.folder / "a.jsonl")[1]), 1)


class RecordFiles(InterfaceTest):
    def test_a_file_of_a_newer_umbench(self):
        self.run_ok(*RUN, "device", "--out", "a.jsonl")
        text = (self.folder / "a.jsonl").read_text(encoding="utf-8")
        self.write_file("a.jsonl", text.replace('"schema":1', '"schema":2'))
        words = ["a.jsonl: line 1", "schema: 2 is from a newer umbench; this umbench reads 1"]
        self.run_refused(*RUN, "device", "--out", "a.jsonl", words=words)
        self.run_refused("sweep", self.write_sweep(), "--out", "a.jsonl", "--resume", words=words)
        self.run_refused("merge", "a.jsonl", "--out", "b.jsonl", words=words)
        self.assertFalse((self.folder / "b.jsonl").exists())

    def test_places_that_cannot_be_written(self):
        for out, words in [("/proc/a.jsonl", ["/proc/a.jsonl", "cannot write"]), ("nowhere/a.jsonl", ["nowhere", "No such"]),
                           (self.folder, ["Is a directory", "--out"])]:
            self.run_refused("sweep", self.write_sweep(), "--out", out, words=words)
            self.run_refused(*RUN, "device", "--out", out, words=words)
        self.run_refused("plan", *RUN[1:], "device", "-o", "/nonexistent/p.json", words=["/nonexistent/p.json"])

    def test_merging(self):
        self.run_refused("merge", "--out", "all.jsonl", words=["PART"])
        self.run_refused("merge", "absent.jsonl", "--out", "all.jsonl", words=["absent.jsonl", "cannot read", "No such file"])
        self.run_refused("merge", self.write_file("diary", "dear diary\n"), "--out", "all.jsonl", words=["diary", "line 1", "not JSON"])
        self.run_refused("merge", self.write_file("nothing.jsonl", ""), "--out", "all.jsonl", words=["no record", "nothing to merge"])
        self.assertFalse((self.folder / "all.jsonl").exists())
        self.run_ok(*RUN, "device", "--out", "a.jsonl")
        self.run_ok(*RUN, "managed", "--out", "b.jsonl")
        self.run_refused("merge", "a.jsonl", "--out", "b.jsonl", words=["b.jsonl", "exists already"])
        self.run_ok("merge", "a.jsonl", "b.jsonl", "a.jsonl", "--out", "all.jsonl")
        self.assertEqual([record["strategy"] for record in read_entries(self.folder / "all.jsonl")[1]], ["device", "managed"])
        text = (self.folder / "a.jsonl").read_text(encoding="utf-8")
        other = self.write_file("other.jsonl", re.sub(r'"samples_ns":\[\d+', '"samples_ns":[1', text))
        self.run_refused("merge", "a.jsonl", other, "--out", "twice.jsonl", words=["alexnet", "two different results"])


class FullDisk(InterfaceTest):
    def test_earlier_records_stay_whole_and_a_resumed_sweep_ends_the_same(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "undisturbed.jsonl")
        size = (self.folder / "undisturbed.jsonl").stat().st_size
        limit = size * 2 // 3
        done = self.umbench("sweep", spec, "--out", "full.jsonl",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1)
        last = done.stderr.splitlines()[-1]
        self.assertIn("full.jsonl: cannot add a record", last)
        whole = (self.folder / "full.jsonl").read_text(encoding="utf-8")
        self.assertTrue(whole.endswith("}\n"))
        kept = read_entries(self.folder / "full.jsonl")[1]
        wanted = read_entries(self.folder / "undisturbed.jsonl")[1]
        self.assertTrue(0 < len(kept) < len(wanted))
        self.assertEqual(kept, wanted[:len(kept)])
        self.run_ok("sweep", spec, "--out", "full.jsonl", "--resume")
        self.assertEqual(read_entries(self.folder / "full.jsonl")[1], wanted)
