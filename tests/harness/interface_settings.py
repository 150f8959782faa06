"""What is compared is alike: figures of machines, rules of strategies, actions of plans. And figures, options and
sizes that cannot be are refused by name."""

import json
import os
import resource

from interface import CELLS, ROOT, InterfaceTest, read_entries

RUN = ["run", "--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy"]
SETTING = ["--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--ratio", "1.5"]


class SettingsTest(InterfaceTest):
    def write_machine(self, folder="machines", **changes):
        """A folder with the machine `mine`; changes of the driver's figures are given as uvm={...}."""
        (self.folder / folder).mkdir(exist_ok=True)
        plain = json.loads((ROOT / "results/machines/h200.json").read_text(encoding="utf-8"))
        plain["uvm"].update(changes.pop("uvm", {}))
        self.write_file(f"{folder}/mine.json", plain | {"name": "mine"} | changes)
        return folder

    def write_rules(self, name="mine.json", **changes):
        rule = {"name": "fetch", "prefetch": {"operands": "inputs", "ahead_operators": 1}}
        return self.write_file(name, {"schema": 1, "kind": "hints", "name": "mine", "summary": "s", "rules": [rule], **changes})


class Figures(SettingsTest):
    GRIDS = [{"network": "alexnet", "batch": 2, "strategy": ["device", "managed"], "ratio": 1, "backend": "sim:mine"}]

    def test_cells_of_other_figures_are_not_mixed(self):
        spec = self.write_sweep(grids=self.GRIDS)
        mine, slow = self.write_machine(), self.write_machine("slow", fp32_flops_per_s=10**12)
        words = ["sim:mine", "other figures"]
        self.run_ok("sweep", spec, "--machines", mine, "--shard", "1/2", "--out", "1.jsonl")
        before = (self.folder / "1.jsonl").read_bytes()
        self.run_refused("sweep", spec, "--machines", slow, "--out", "1.jsonl", "--resume", words=["1.jsonl", *words])
        self.run_refused("run", *SETTING[:-4], "--backend", "sim:mine", "--strategy", "managed", "--machines", slow, "--out", "1.jsonl",
                         words=["1.jsonl", *words])
        self.assertEqual((self.folder / "1.jsonl").read_bytes(), before)
        self.run_ok("sweep", spec, "--machines", slow, "--shard", "2/2", "--out", "2.jsonl")
        self.run_refused("merge", "1.jsonl", "2.jsonl", "--out", "m.jsonl", words=words)
        self.run_ok("sweep", spec, "--machines", mine, "--out", "1.jsonl", "--resume")

    def test_what_does_not_change_a_result_does_not_matter(self):
        spec = self.write_sweep(grids=self.GRIDS)
        self.run_ok("sweep", spec, "--machines", self.write_machine())
        self.run_ok("sweep", spec, "--machines", self.write_machine("other", source="elsewhere"), "--resume")


class Rules(SettingsTest):
    def run_to_key(self, rules_file, record_file="a.jsonl"):
        self.run_ok(*RUN, rules_file, "--out", record_file)
        return read_entries(self.folder / record_file)[1][-1]["key"]

    def test_a_summary_does_not_change_the_key_and_rules_do(self):
        plain = self.run_to_key(self.write_rules())
        self.assertEqual(self.run_to_key(self.write_rules("worded.json", summary="in other words")), plain)
        rule = {"name": "fetch", "prefetch": {"operands": "inputs", "ahead_operators": 2}}
        self.assertNotEqual(self.run_to_key(self.write_rules("other.json", rules=[rule])), plain)

    def test_other_rules_under_one_name_are_not_mixed(self):
        self.run_ok(*RUN, "managed_prefetch", "--out", "a.jsonl")
        path = self.folder / "a.jsonl"
        environment, record = path.read_text(encoding="utf-8").splitlines()
        changed = json.loads(record)
        changed["rules"]["rules"][0]["prefetch"]["ahead_operators"] = 7
        path.write_text(environment + "\n" + json.dumps(changed) + "\n", encoding="utf-8")
        self.run_refused(*RUN, "managed_prefetch", "--out", "a.jsonl", words=["managed_prefetch", "other rules"])

    def test_too_many_rules(self):
        rules = [{"name": f"r{n}", "advise": "read_mostly"} for n in range(100_000)]
        self.run_refused(*RUN, self.write_rules(rules=rules), words=["mine.json", "1000 rules"])


class Plans(SettingsTest):
    def plan(self, name="plan.json", strategy="managed", **changes):
        self.run_ok("plan", *SETTING, "--strategy", strategy, "-o", name)
        path = self.folder / name
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
        return path

    def test_a_ratio_that_is_not_the_budgets_is_refused(self):
        run = ["run", "--backend", "sim:h200", "--plan"]
        for changes in ({"ratio": 0.5}, {"ratio": 3.0}, {"budget_bytes": 121069}, {"budget_bytes": 2**40},
                        {"footprint_bytes": 1}, {"footprint_bytes": 2**40}):
            self.run_refused(*run, self.plan(**changes), words=["plan.json", "_bytes"])
        self.run_ok(*run, self.plan())

    def test_plans_of_other_actions_are_other_cells(self):
        path = self.plan(strategy="managed_prefetch")
        self.run_ok("run", "--plan", path, "--backend", "sim:h200", "--out", "a.jsonl")
        plan = json.loads(path.read_text(encoding="utf-8"))
        moves = [n for n, action in enumerate(plan["actions"]) if action["do"] == "prefetch"]
        self.assertTrue(moves)
        fewer = [action for n, action in enumerate(plan["actions"]) if n not in moves[-1:]]
        other = self.write_file("other.json", plan | {"actions": fewer})
        self.run_ok("run", "--plan", other, "--backend", "sim:h200", "--out", "a.jsonl")
        self.run_ok("run", "--plan", path, "--backend", "sim:h200", "--out", "a.jsonl")
        keys = [record["key"] for record in read_entries(self.folder / "a.jsonl")[1]]
        self.assertEqual(keys[0], keys[-1])
        self.assertEqual(len(set(keys)), 2)
        self.assertRegex(keys[0], r"/plan:managed_prefetch#[0-9a-f]{6},")

    def test_parts_that_share_no_border_are_read_soon(self):
        """Such a plan is read within the processor time and the memory that reading a file may take."""
        self.run_ok("plan", "--network", "conv", "--strategy", "device", "--ratio", "1", "--backend", "sim:h200", "-o", "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        names = [action["what"] for action in plan["actions"]]
        plan["actions"] = [{"do": "compute", "what": names[n % len(names)], "part": {"batch": [10**9 * part // parts, 10**9 * (part + 1) // parts]}}
                           for n, parts in enumerate((2, 3, 5, 7, 11, 13, 17, 19)) for part in range(parts)]
        plan["network"]["batch"] = 10**9
        plan["footprint_bytes"] = plan["budget_bytes"] = 2**53
        done = self.umbench("run", "--plan", self.write_file("plan.json", plan), "--backend", "sim:h200")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("infeasible: the budget of", done.stdout)

    def test_a_plan_is_no_strategy(self):
        self.run_refused(*RUN, "plan:x", "--out", "a.jsonl", words=["plan:x", "--plan"])
        self.run_refused(*RUN, "plan:a\nb", words=["plan:", "--plan"])
        grids = [{"network": "alexnet", "strategy": "plan:x", "backend": "sim:h200"}]
        self.run_refused("sweep", self.write_sweep(grids=grids), words=["plan:x"])
        self.assertFalse((self.folder / "a.jsonl").exists())

    def test_no_more_memory_is_in_use_than_the_driver_lets_in(self):
        for mode in ("simulated", "capped"):
            self.run_ok(*RUN, "managed", "--ratio", "2", "--mode", mode, "--out", "a.jsonl")
            memory = read_entries(self.folder / "a.jsonl")[1][-1]["memory"]
            self.assertLessEqual(memory["peak_device_bytes"], memory["budget_bytes"])
            self.assertGreater(memory["peak_device_bytes"], memory["budget_bytes"] * 0.5)
        shown = self.run_ok("plan", *SETTING, "--strategy", "managed")
        budget = next(line for line in shown.splitlines() if "budget" in line).split("budget ")[1]
        self.assertIn(f"peak       {budget} of device memory in use", shown)

    def test_planning_has_a_deadline(self):
        done = self.umbench("plan", "--network", "resnet152", "--batch", "512", "--strategy", "best", "--ratio", "2",
                            "--backend", "sim:h200", "--deadline", "1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertTrue(done.stderr.endswith("umbench: planning: takes more than 1 s of processor time, and is given up\n"), done.stderr)


class Machines(SettingsTest):
    def refused_figure(self, field, **changes):
        self.run_refused("list", "machines", "--machines", self.write_machine(**changes), words=["mine.json", field])

    def test_figures_that_cannot_be(self):
        self.refused_figure("multiprocessors", multiprocessors=4611686018427387904)
        for field in ("launch_ns", "copy_ns"):
            self.refused_figure(field, **{field: 2**50})
        for field in ("interrupt_ns", "batch_ns", "fault_ns", "evict_ns", "page_fault_ns", "populate_ns", "discard_block_ns"):
            for value in (2**61, 10**17, 2**50, 10**10):
                self.refused_figure(f"uvm.{field}", uvm={field: value})
        self.refused_figure("uvm.remote_read_bytes_per_s", uvm={"remote_read_bytes_per_s": 10**13})
        self.refused_figure("uvm.remote_write_bytes_per_s", uvm={"remote_write_bytes_per_s": 10**13})
        self.refused_figure("link_both_bytes_per_s", link_both_bytes_per_s=10**9)
        self.refused_figure("link_both_bytes_per_s", link_both_bytes_per_s=10**12)

    def test_slow_ones_give_times_that_are_times(self):
        folder = self.write_machine(uvm={field: 10**9 for field in ("interrupt_ns", "batch_ns", "fault_ns", "evict_ns", "host_populate_ns")})
        done = self.umbench(*RUN[:-3], "--backend", "sim:mine", "--machines", folder, "--strategy", "managed", "--ratio", "2",
                            "--out", "a.jsonl")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        record = read_entries(self.folder / "a.jsonl")[1][0]
        self.assertIn(record["outcome"], ("ok", "unsupported"), record["reason"])
        if record["outcome"] == "ok":
            self.assertGreater(record["samples_ns"][-1], 10**9)


class Options(SettingsTest):
    def test_what_means_nothing_is_refused(self):
        self.run_refused(*RUN, "device", "--insize", "224", "--set", "insize=448", words=["--insize"])
        self.run_refused(*RUN, "device", "--times-only", words=["--times-only", "sim:h200"])
        self.run_refused("sweep", self.write_sweep(), "--times-only", words=["--times-only"])
        for command in (["tune", *SETTING], ["ablate", *SETTING], [*RUN, "device"], ["plan", *SETTING, "--strategy", "device"]):
            self.run_refused(*command, "--like", "nope", words=["--like"])

    def test_more_jobs_than_the_system_lends(self):
        done = self.umbench("sweep", self.write_sweep(), "--jobs", "1024",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no more than", done.stderr)
        self.assertEqual(len(read_entries(self.folder / "study.jsonl")[1]), CELLS)


class Trials(SettingsTest):
    KILLED = {"UMBENCH_TEST_CELL": "abort:tuned"}

    def test_tune_tells_what_crashed(self):
        done = self.umbench("tune", *SETTING, "--trials", "40", env=self.KILLED)
        crashed = [record for record in read_entries(self.folder / "tuned.jsonl")[1] if record["outcome"] == "crashed"]
        self.assertTrue(crashed)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{len(crashed)} of ", done.stderr.splitlines()[-1])
        self.assertIn("trials failed, such as ", done.stderr.splitlines()[-1])
        self.assertTrue((self.folder / "tuned.json").exists())

    def test_ablate_tells_what_crashed(self):
        for killed in ("abort:", "abort:read_mostly"):
            done = self.umbench("ablate", *SETTING, "--out", f"{len(killed)}.jsonl", env={"UMBENCH_TEST_CELL": killed})
            self.assertEqual(done.returncode, 1)
            self.assertIn("trials failed, such as ", done.stderr.splitlines()[-1])
            self.assertIn("killed by SIGABRT", done.stderr.splitlines()[-1])


class Deadlines(SettingsTest):
    def test_a_simulated_cell_has_its_deadline_in_processor_time(self):
        """A cell gets as far beside processes that keep the processors busy as it gets alone."""
        spec = self.write_sweep(grids=[{"network": "vgg16", "batch": 64, "strategy": "managed", "ratio": 2, "iterations": 5,
                                        "deadline_s": 30, "backend": "sim:h200"}])
        self.run_ok("sweep", spec, preexec_fn=lambda: os.nice(19))
