"""Machine files from data sheets: made, shown, checked, and what is said of their assumptions."""

import json

from interface import ROOT, InterfaceTest, read_entries

SETTINGS = ["device_bytes=24GiB", "fp32_flops_per_s=82.6TFLOPS", "device_bytes_per_s=1008GB/s", "launch_ns=4us"]


def set_options(*values):
    return [word for value in values for word in ("--set", value)]


class New(InterfaceTest):
    def new_machine(self, *arguments, name="mine"):
        shown = self.run_ok("machine", "new", name, *arguments)
        return shown, json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def test_values_take_units_and_the_rest_comes_from_the_other_machine(self):
        shown, made = self.new_machine("--from", "a100-pcie4-40g", *set_options(*SETTINGS), "--source", "Its data sheet.")
        base = json.loads((ROOT / "results/machines/a100-pcie4-40g.json").read_text(encoding="utf-8"))
        self.assertEqual([made[name] for name in ("device_bytes", "fp32_flops_per_s", "device_bytes_per_s", "launch_ns")],
                         [24 * 2**30, 82_600_000_000_000, 1_008_000_000_000, 4000])
        self.assertEqual(made["uvm"], base["uvm"])
        self.assertEqual(made["estimated"], base["estimated"])
        self.assertFalse(made["calibrated"])
        self.assertIn("Its data sheet. All else as in machine file a100-pcie4-40g: ", made["source"])
        self.assertIn("4 figures set", shown)
        self.assertIn("kernels   at 100 % of the peak in fp32, tf32, bf16", shown)
        self.run_ok("run", "--network", "conv", "--strategy", "managed", "--ratio", "1.5", "--backend", "sim:mine", "--machines", ".")

    def test_everything_is_estimated_also_what_the_other_machine_measured(self):
        _, made = self.new_machine("--from", "h100-sxm-80g", *set_options("device_bytes=40GiB"))
        base = json.loads((ROOT / "results/machines/h100-sxm-80g.json").read_text(encoding="utf-8"))
        self.assertLess(len(base["estimated"]), 10)
        self.assertGreater(len(made["estimated"]), 40)
        self.assertEqual(made["operators"], base["operators"])

    def test_what_rests_on_the_link_follows_it(self):
        shown, made = self.new_machine("--from", "a100-pcie4-40g", *set_options("link_to_device_bytes_per_s=50.2GB/s",
                                                                                "link_to_host_bytes_per_s=50.2GB/s"))
        self.assertEqual(made["link_both_bytes_per_s"], 90_000_000_000)
        self.assertEqual(made["uvm"]["remote_read_bytes_per_s"], 46_400_000_000)
        self.assertIn("link_both_bytes_per_s", shown)
        _, made = self.new_machine("--from", "a100-pcie4-40g", *set_options("link_to_device_bytes_per_s=50.2GB/s", "link_both_bytes_per_s=60GB/s"),
                                   name="other")
        self.assertEqual(made["link_both_bytes_per_s"], 60_000_000_000)

    def test_all_that_lacks_is_asked_for_at_once(self):
        refused = self.run_refused("machine", "new", "mine", *set_options(*SETTINGS), words=["figures are missing", "--from"])
        known = {line.split()[0] for line in self.run_ok("list", "figures").splitlines()[1:]}
        named = set(refused.stderr.split("missing: ")[1].split("; set them")[0].split(", "))
        self.assertTrue(named < known)
        self.assertFalse({setting.split("=")[0] for setting in SETTINGS} & named)
        self.run_ok("machine", "new", "mine", *set_options(*SETTINGS, *(f"{name}={value_of_figure(name)}" for name in named)))
        self.assertIn("mine", self.run_ok("list", "machines", "--machines", "."))

    def test_what_is_no_figure_or_no_value_is_refused(self):
        new = ["machine", "new", "mine", "--from", "h200"]
        self.run_refused(*new, *set_options("device_byte=24GiB"), words=["device_byte", "did you mean device_bytes?", "list figures"])
        self.run_refused(*new, *set_options("evict_ns=4us"), words=["evict_ns", "uvm.evict_ns"])
        self.run_refused(*new, *set_options("device_bytes=24 bananas"), words=["device_bytes", "24 bananas", "24GiB"])
        self.run_refused(*new, *set_options("device_bytes_per_s=24GiB"), words=["device_bytes_per_s", "25.1GB/s"])
        self.run_refused(*new, *set_options("launch_ns=2s"), words=["launch_ns", "2s", "1000000000 ns"])
        self.run_refused(*new, *set_options("multiprocessors=1.5"), words=["multiprocessors", "132"])
        self.run_refused(*new, *set_options("launch_ns=1", "launch_ns=2"), words=["launch_ns", "more than once"])
        self.run_refused(*new, *set_options("launch_ns"), words=["FIGURE=VALUE"])
        self.run_refused(*new, *set_options("uvm.remote_read_bytes_per_s=900GB/s"), words=["remote_read_bytes_per_s", "link_to_device_bytes_per_s"])
        self.run_refused(*new, words=["nothing is set"])
        self.run_refused("machine", "new", "a/b", "--from", "h200", *set_options("launch_ns=1"), words=["name", "lower-case"])
        self.run_refused("machine", "new", "mine", "--from", "h20", *set_options("launch_ns=1"), words=["h20", "did you mean h200?"])
        self.run_refused("machine", "nwe", "mine", words=["nwe", "did you mean new?"])
        self.run_refused("machine", "new", "mine", "--sett", "launch_ns=1", words=["--sett: unknown option", "--set", "umbench machine new --help"])
        self.assertFalse((self.folder / "mine.json").exists())

    def test_no_file_is_overwritten(self):
        self.new_machine("--from", "h200", *set_options("launch_ns=1"))
        before = (self.folder / "mine.json").read_bytes()
        self.run_refused("machine", "new", "mine", "--from", "h200", *set_options("launch_ns=2"), words=["mine.json", "is there already"])
        self.assertEqual((self.folder / "mine.json").read_bytes(), before)


def value_of_figure(figure):
    return 4096 if figure == "uvm.host_chunk_bytes" else 1


class Show(InterfaceTest):
    def test_figures_say_whether_they_were_measured(self):
        shown = self.run_ok("machine", "show", "h200")
        self.assertRegex(shown, r"(?m)^  launch_ns +\d+ ns  measured$")
        self.assertRegex(shown, r"(?m)^  uvm.evict_ns +\d+ ns  estimated$")
        self.assertRegex(shown, r"(?m)^  device_bytes +139 GiB  measured$")
        self.assertNotIn("100 % of the peak", shown)
        self.assertRegex(self.run_ok("machine", "show", "a100-pcie4-40g"), r"(?m)^  slice_ns +\d+ ns  of h200$")

    def test_the_file_itself(self):
        shown = json.loads(self.run_ok("machine", "show", "gh200", "--json"))
        self.assertEqual(shown, json.loads((ROOT / "results/machines/gh200.json").read_text(encoding="utf-8")))
        self.run_refused("machine", "show", "gh20", words=["did you mean gh200?"])


class Check(InterfaceTest):
    def test_a_file_that_is_complete(self):
        shown = self.run_ok("machine", "check", ROOT / "results/machines/a100-pcie4-40g.json")
        self.assertIn("a complete machine file, a100-pcie4-40g", shown)
        self.assertIn("0 measured, 44 estimated", shown)
        self.assertIn("it replaces the built-in machine", " ".join(shown.split()))

    def test_a_file_that_lacks_much(self):
        path = self.write_file("sheet.json", {"schema": 1, "name": "sheet", "source": "s", "calibrated": False,
                                              "device_bytes": 2**34, "estimated": []})
        refused = self.run_refused("machine", "check", path, words=["sheet.json", "launch_ns", "uvm.batch_ns", "uvm.evict_ns"])
        self.assertNotIn("uvm.read_batches_percent", refused.stderr)  # may be absent
        self.run_refused("machine", "check", "nowhere.json", words=["nowhere.json"])


class Peak(InterfaceTest):
    RUN = ["--network", "alexnet", "--batch", "2", "--ratio", "1.5"]
    SAID = "kernels at 100 % of the peak"

    def test_it_is_said_wherever_it_decides(self):
        on = ["--backend", "sim:a100-pcie4-40g"]
        for command in (["run", "--strategy", "managed", "--out", "a.jsonl"], ["plan", "--strategy", "managed"], ["advise", "--strategy", "managed"]):
            shown = " ".join(self.run_ok(command[0], *self.RUN, *on, *command[1:]).split())
            self.assertIn(self.SAID, shown, command[0])
            self.assertIn("--precision tf32", shown, command[0])
        self.assertIs(read_entries(self.folder / "a.jsonl")[1][0]["kernels_at_peak"], True)
        self.assertIn(self.SAID, self.run_ok("env", "--machine", "a100-pcie4-40g"))
        self.assertIn(self.SAID, " ".join(self.run_ok("list", "machines").split()))

    def test_it_is_not_said_where_operators_were_measured(self):
        shown = self.run_ok("run", *self.RUN, "--strategy", "managed", "--backend", "sim:h200", "--out", "a.jsonl")
        self.assertNotIn(self.SAID, shown)
        self.assertNotIn("kernels_at_peak", read_entries(self.folder / "a.jsonl")[1][0])
        shown = self.run_ok("run", *self.RUN, "--strategy", "managed", "--backend", "sim:h200", "--precision", "tf32")
        self.assertNotIn("--precision", shown)


class FromSamples(InterfaceTest):
    """Machine files follow from the samples that a calibration kept."""
    FOLDER = ROOT / "results/validation"

    def test_the_kept_files_are_those_of_today_s_arithmetic(self):
        for samples in sorted((self.FOLDER / "samples").glob("*.json")):
            kept = self.FOLDER / "machines" / samples.name
            self.run_ok("calibrate", "--from", samples, "--like", samples.stem, "--machines", kept.parent, "--out", samples.name)
            self.assertEqual(json.loads((self.folder / samples.name).read_text(encoding="utf-8")), json.loads(kept.read_text(encoding="utf-8")))

    def test_what_cannot_be_worked_out(self):
        self.write_file("empty.json", {"launches": []})
        self.run_refused("calibrate", "--from", "empty.json", "--out", "a.json", words=["--from", "--like"])
        self.run_refused("calibrate", "--from", "empty.json", "--like", "h200", "--out", "a.json", words=["empty.json", "launches", "no samples"])


class Ready(InterfaceTest):
    """The machines of which users have asked: each is there, and says where its figures come from."""
    NAMES = ["rtx4090-24g", "rtx5090-32g", "l40s-48g", "a6000-48g", "b200", "gb10", "gh200", "gh200-asymmetric", "gb300"]

    def test_they_are_built_in_and_marked_as_estimated(self):
        for name in self.NAMES:
            made = json.loads(self.run_ok("machine", "show", name, "--json"))
            self.assertFalse(made["calibrated"], name)
            self.assertGreaterEqual(len(made["estimated"]), 44, name)
            self.assertTrue(made["source"].startswith("Estimated throughout"), name)

    def test_links_are_as_published(self):
        asymmetric = json.loads(self.run_ok("machine", "show", "gh200-asymmetric", "--json"))
        width = next(w for w in asymmetric["widths"] if w["figure"] == "link_to_device_bytes_per_s")
        self.assertEqual((width["least"], width["most"]), (412 * 10**9, 421 * 10**9))
        self.assertEqual(asymmetric["link_to_host_bytes_per_s"], 170 * 10**9)
        gb300 = json.loads(self.run_ok("machine", "show", "gb300", "--json"))
        self.assertEqual((gb300["link_to_device_bytes_per_s"], gb300["link_to_host_bytes_per_s"]), (211 * 10**9, 193 * 10**9))
