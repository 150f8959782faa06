"""Which way of using memory `umbench advise` names, and what it says of machines on which managed memory is another thing."""

import json

from interface import InterfaceTest

SOME = [word for name in ("device", "managed", "managed_prefetch", "zero_copy", "swap_all", "tvdnn")
        for word in ("--strategy", name)]  # planned in a moment
ASK = ["advise", "--network", "alexnet", "--batch", "64", "--backend"]


class Advise(InterfaceTest):
    def advice(self, *arguments, backend="sim:h200"):
        return json.loads(self.run_ok(*ASK, backend, "--json", *arguments))

    def test_a_paragraph_and_a_table(self):
        shown = self.run_ok(*ASK, "sim:h200", "--ratio", "2", *SOME)
        self.assertTrue(all(len(line) <= 100 for line in shown.splitlines()), shown)
        paragraph, table = shown.split("\n\n")
        for words in ("ratio 2.00", "Take ", "(slowdown ", "simulated on machine file h200", "Managed memory as it is: "):
            self.assertIn(words, " ".join(paragraph.split()))
        self.assertRegex(table, r"^slowdown +time +strategy +way")
        self.assertIn("infeasible: ", table)  # device, which does not fit

    def test_what_is_named_is_the_fastest_or_asks_less(self):
        told = self.advice("--ratio", "1.5", *SOME, "--strategy", "planned")
        times = {way["strategy"]: way["median_ns"] for way in told["ways"] if way["outcome"] == "ok"}
        self.assertLessEqual(times[told["named"]], 1.02 * min(times.values()))
        self.assertGreaterEqual(len({way["way"] for way in told["ways"] if way["outcome"] == "ok"}), 4)
        for way in told["ways"]:
            if way["outcome"] == "ok":
                self.assertAlmostEqual(way["slowdown"], way["median_ns"] / told["in_core_ns"])
            else:
                self.assertTrue(way["reason"])

    def test_it_is_what_run_says(self):
        told = self.advice("--ratio", "1.5", "--strategy", "managed")
        path = self.folder / "run.jsonl"
        self.run_ok("run", *ASK[1:], "sim:h200", "--ratio", "1.5", "--strategy", "managed", "--iterations", "3", "--out", path)
        samples = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["samples_ns"]
        self.assertEqual(told["ways"][0]["median_ns"], sum(samples[1:]) / 2)

    def test_where_everything_fits_nothing_is_asked(self):
        self.assertEqual(self.advice(*SOME)["named"], "device")
        self.assertEqual(self.advice("--ratio", "0.9", *SOME)["named"], "device")

    def test_managed_memory_that_cannot_exceed_the_device(self):
        for system, word in (("wsl2", "WSL2"), ("windows", "Windows")):
            told = self.advice("--ratio", "2", "--system", system, *SOME)
            self.assertFalse(told["oversubscribes"])
            self.assertIn("concurrentManagedAccess", told["oversubscribes_not_because"])
            managed = [way for way in told["ways"] if way["way"].startswith("managed")]
            self.assertEqual({way["outcome"] for way in managed}, {"unsupported"})
            self.assertNotIn(told["named"], [way["strategy"] for way in managed])
            self.assertIn(f"Managed memory cannot be used here: under {word}",
                          " ".join(self.run_ok(*ASK, "sim:h200", "--ratio", "2", "--system", system, *SOME).split()))
        fits = self.advice("--ratio", "0.9", "--system", "wsl2", "--strategy", "managed")
        self.assertEqual(fits["ways"][0]["outcome"], "ok", "what fits needs no more than the device has")

    def test_a_coherent_machine(self):
        told = self.advice("--ratio", "2", *SOME, backend="sim:gh200")
        self.assertTrue(told["coherent"])
        self.assertFalse(self.advice("--ratio", "2", "--strategy", "managed")["coherent"])
        self.assertIn("page tables (ATS)", " ".join(self.run_ok(*ASK, "sim:gh200", "--ratio", "2", *SOME).split()))

    def test_none_works(self):
        done = self.umbench(*ASK, "sim:h200", "--budget", "1MiB", *SOME)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Nothing that was tried works", " ".join(done.stdout.split()))

    def test_without_a_gpu_a_machine_stands_for_it(self):
        done = self.umbench("advise", "--network", "alexnet", "--batch", "64", "--ratio", "0.5", "--strategy", "device",
                            env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no GPU", done.stderr)

    def test_bad_input(self):
        self.run_refused(*ASK, "sim:h200", "--system", "wsl", words=["--system", "wsl2"])
        self.run_refused(*ASK, "sim:h200", "--strategy", "twins", words=["twin"])
        self.run_refused(*ASK, "sim:h200", "--ratio", "2", "--budget", "1GiB", words=["keep one"])
