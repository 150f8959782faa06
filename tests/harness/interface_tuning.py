"""umbench tune and umbench ablate."""

import json
import signal
import subprocess
import time

from interface import PATIENCE_S, InterfaceTest, read_entries

SETTING = ["--network", "alexnet", "--batch", "16", "--ratio", "2", "--backend", "sim:h200", "--iterations", "3"]


def read_keys(path):
    return [record["key"] for record in read_entries(path)[1]]


class Tune(InterfaceTest):
    def test_the_best_is_no_slower_than_any_named_strategy_and_its_file_runs_as_it_was_tried(self):
        said = self.run_ok("tune", *SETTING, "--trials", "60", "--out", "mine.json")
        for word in ("simulated on machine file h200", "managed", "times as long", "device", "operators alone"):
            self.assertIn(word, said)
        tuned = json.loads((self.folder / "mine.json").read_text(encoding="utf-8"))
        self.assertEqual(tuned["kind"], "hints")
        self.assertIn("alexnet/b16/train/fused/fp32/x2.00", tuned["summary"])
        tried = read_entries(self.folder / "mine.jsonl")[1]
        self.assertEqual(len(tried), len({record["key"] for record in tried}))
        self.run_ok("run", *SETTING, "--strategy", "mine.json", "--out", "again.jsonl")
        again = read_entries(self.folder / "again.jsonl")[1][0]
        best = min(record["samples_ns"][-1] for record in tried if record["outcome"] == "ok")
        self.assertEqual(again["samples_ns"][-1], best)
        self.assertEqual(again["rules"]["rules"], tuned["rules"])

    def test_a_number_of_jobs_changes_nothing(self):
        for jobs in ("1", "3"):
            self.run_ok("tune", *SETTING, "--trials", "45", "--jobs", jobs, "--out", f"{jobs}.json")
        self.assertEqual((self.folder / "1.json").read_text(), (self.folder / "3.json").read_text())
        self.assertEqual(read_entries(self.folder / "1.jsonl")[1], read_entries(self.folder / "3.jsonl")[1])

    def test_it_begins_with_a_strategy_of_the_users(self):
        self.run_ok("tune", *SETTING, "--trials", "5", "--strategy", "discard_prefetch", "--out", "a.json")
        tried = read_keys(self.folder / "a.jsonl")
        self.assertIn("/discard_prefetch/", tried[0])
        self.assertFalse([key for key in tried if "/twin/" in key])
        self.run_ok("tune", *SETTING, "--trials", "5", "--strategy", "a.json", "--out", "b.json")

    def test_stopped_and_resumed_it_ends_as_if_undisturbed(self):
        arguments = ["tune", *SETTING, "--trials", "45", "--jobs", "1"]
        self.run_ok(*arguments, "--out", "whole.json")
        wanted = read_entries(self.folder / "whole.jsonl")[1]
        path = self.folder / "cut.jsonl"
        process = subprocess.Popen(self.command(*arguments, "--out", "cut.json"), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        limit = time.monotonic() + PATIENCE_S
        while not path.exists() or path.read_text(encoding="utf-8").count("\n") < 10:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn("--resume", error.splitlines()[-1])
        self.assertIn("tried, next", error)
        self.assertLess(len(read_entries(path)[1]), len(wanted))
        self.run_refused(*arguments, "--out", "cut.json", words=["--resume"])
        self.run_ok(*arguments, "--out", "cut.json", "--resume")
        environments, records = read_entries(path)
        self.assertEqual(records, wanted)
        self.assertEqual(len(environments), 1)
        self.assertEqual((self.folder / "cut.json").read_text(), (self.folder / "whole.json").read_text())

    def test_what_it_refuses(self):
        self.run_refused("tune", *SETTING, "--out", "mine", words=["--out mine", ".json"])
        self.run_refused("tune", *SETTING, "--strategy", "swap_all", words=["swap_all", "rules"])
        self.run_refused("tune", *SETTING, "--knob", "ahead=3", words=["--knob", "--strategy"])
        self.run_refused("tune", *SETTING, "--trials", "0", words=["--trials"])
        self.assertFalse((self.folder / "tuned.jsonl").exists())

    def test_where_nothing_works_it_says_so(self):
        done = self.umbench("tune", "--network", "alexnet", "--batch", "1048576", "--budget", "1GiB", "--backend",
                            "sim:h200", "--trials", "3", "--out", "none.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none of 3 strategies works", done.stderr.splitlines()[-1])
        self.assertFalse((self.folder / "none.json").exists())


class Ablate(InterfaceTest):
    def test_every_hint_alone_and_every_rule_left_out(self):
        said = self.run_ok("ablate", *SETTING, "--strategy", "discard_prefetch", "--out", "a.jsonl")
        for word in ("simulated on machine file h200", "each hint alone", "without discard", "without prefetch",
                     "discard of discard_prefetch", "read_mostly_weights"):
            self.assertIn(word, said)
        harmful = next(line for line in said.splitlines() if line.split()[:1] == ["discard_alone"])
        self.assertIn("harmful", harmful)
        self.assertIn("page by page", harmful)
        tried = read_keys(self.folder / "a.jsonl")
        self.assertEqual(len(tried), len(set(tried)))
        self.assertTrue([key for key in tried if "discard_prefetch,without=discard/" in key])
        self.run_ok("ablate", *SETTING, "--strategy", "discard_prefetch", "--out", "a.jsonl", "--resume")
        self.assertEqual(read_keys(self.folder / "a.jsonl"), tried)

    def test_the_fastest_is_taken_apart_where_none_is_named(self):
        said = self.run_ok("ablate", *SETTING)
        self.assertIn(", and each rule left out", said)

    def test_what_it_refuses(self):
        self.run_refused("ablate", *SETTING, "--strategy", "managed", words=["managed", "no rules"])
        self.run_refused("ablate", *SETTING, "--strategy", "device", words=["device", "no rules"])
