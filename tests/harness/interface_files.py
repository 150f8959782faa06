"""Nothing is lost, and nothing goes unseen: files that cannot be read or written, streams that are closed or full,
pipes, files that others change meanwhile."""

import json
import os
import signal
import subprocess
import threading
import time
import unittest

from interface import CELLS, PATIENCE_S, InterfaceTest, read_entries

RUN = ["run", "--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--strategy"]
SETTING = ["--network", "alexnet", "--batch", "2", "--backend", "sim:h200", "--ratio", "1.5"]


class FilesTest(InterfaceTest):
    def write_records(self, name, *strategies):
        for strategy in strategies or ("device", "managed"):
            self.run_ok(*RUN, strategy, "--ratio", "0.5", "--out", name)
        return self.folder / name

    def run_shell(self, script, **options):
        """The program as "$U" in a script of bash; its exit code is that of the script."""
        return subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S, env={**os.environ, "U": self.command()[0]}, **options)

    def wait_until(self, condition):
        limit = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), limit, "it never came about")
            time.sleep(0.02)


class Reading(FilesTest):
    """What cannot be read to its end is refused, and stays as it is."""

    @unittest.skipIf({"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ), "a sanitizer needs memory of its own")
    def test_a_file_larger_than_memory_is_left_alone(self):
        """Eight GiB that are on no disk, in a process that may have four, which is enough for any build."""
        path = self.write_records("a.jsonl", "device")
        before, size = path.read_bytes(), 2**33
        os.truncate(path, size)
        for command in (f"{' '.join(RUN)} managed --out a.jsonl", f"sweep {self.write_sweep()} --out a.jsonl --resume",
                        "merge a.jsonl --out b.jsonl"):
            done = self.run_shell(f'ulimit -v {2**22}; "$U" {command}')
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("a.jsonl: cannot read: memory", done.stderr)
            self.assertEqual(path.stat().st_size, size)
            with open(path, "rb") as file:
                self.assertEqual(file.read(len(before)), before)
        self.assertFalse((self.folder / "b.jsonl").exists())

    def test_folders_and_devices_are_refused(self):
        part = self.write_records("a.jsonl")
        (self.folder / "folder.jsonl").mkdir()
        for name, word in (("folder.jsonl", "is a folder"), ("/dev/zero", "is a device"), ("/dev/full", "is a device"),
                           ("/proc/self/mem", "Input/output error")):
            self.run_refused("merge", part, name, "--out", "b.jsonl", words=[name, word])
            self.run_refused("sweep", name, words=[name, word])
            self.run_refused("run", "--plan", name, "--backend", "sim:h200", words=[name, word])
        self.run_refused("validate", "folder.jsonl", words=["folder.jsonl", "is a folder"])
        self.assertFalse((self.folder / "b.jsonl").exists())

    @unittest.skipIf({"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ), "a sanitizer needs memory of its own")
    def test_no_input_takes_the_machines_memory(self):
        """Eight GiB that are on no disk: what umbench may take to read is limited."""
        (self.folder / "machines").mkdir()
        for name in ("large.json", "machines/large.json"):
            with open(self.folder / name, "wb") as file:
                file.truncate(2**33)
        for command in (["sweep", "large.json"], ["run", "--plan", "large.json", "--backend", "sim:h200"], ["validate", "large.json"],
                        [*RUN, "large.json"], ["tune", *SETTING, "--strategy", "large.json", "--out", "o.json"],
                        ["ablate", *SETTING, "--strategy", "large.json"], ["plan", *SETTING, "--strategy", "large.json"],
                        ["list", "machines", "--machines", "machines"]):
            self.run_refused(*command, words=["large.json", "memory does not suffice"])

    def test_pipes_are_read_to_their_end(self):
        self.write_records("1.jsonl", "device")
        self.write_records("2.jsonl", "managed", "managed_advise")
        self.run_ok("merge", "1.jsonl", "2.jsonl", "--out", "files.jsonl")
        for script in ('"$U" merge 1.jsonl <(cat 2.jsonl) --out m.jsonl',
                       'cat 2.jsonl | "$U" merge 1.jsonl /dev/stdin --out m.jsonl',
                       'mkfifo p.jsonl; cat 2.jsonl > p.jsonl & "$U" merge 1.jsonl p.jsonl --out m.jsonl'):
            done = self.run_shell(script)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("3 cells of 2 parts", done.stdout)
            self.assertEqual((self.folder / "m.jsonl").read_bytes(), (self.folder / "files.jsonl").read_bytes())
            (self.folder / "m.jsonl").unlink()
        spec = self.write_sweep()
        self.assertEqual(self.run_shell(f'cat {spec} | "$U" sweep /dev/stdin --list').stdout.splitlines()[-1], f"{CELLS} cells")

    def test_a_part_without_records_is_named(self):
        self.write_records("1.jsonl", "device")
        self.write_file("2.jsonl", "")
        done = self.umbench("merge", "1.jsonl", "2.jsonl", "--out", "m.jsonl")
        self.assertEqual((done.returncode, done.stderr), (0, "2.jsonl: holds no record\n"))


class LastLines(FilesTest):
    def test_what_is_torn_is_always_said(self):
        path = self.write_records("a.jsonl")
        whole = path.read_bytes()
        for torn in (whole.splitlines()[-1][:-1], b'{"kind":"record","x":"\xc3', b"\0" * 512):
            path.write_bytes(whole + torn)
            done = self.umbench("merge", path, "--out", "m.jsonl")
            self.assertEqual(done.stderr, f"{path}: left out a torn last line of {len(torn)} bytes\n")
            (self.folder / "m.jsonl").unlink()
            self.assertEqual(path.read_bytes(), whole + torn)
            done = self.umbench(*RUN, "swap_all", "--ratio", "0.5", "--out", "a.jsonl")
            self.assertEqual((done.returncode, done.stderr), (0, f"a.jsonl: cut off a torn last line of {len(torn)} bytes\n"))
            self.assertEqual(len(read_entries(path)[1]), 3)


class Overwriting(FilesTest):
    def test_no_record_file_is_overwritten(self):
        path = self.write_records("a.jsonl")
        before = path.read_bytes()
        self.run_refused("plan", *SETTING, "--strategy", "managed", "-o", path, words=["--out", "holds records"])
        self.run_refused("plan", *SETTING, "--strategy", "managed", "--graph", path, words=["--graph", "holds records"])
        (self.folder / "a.json").symlink_to(path)
        self.run_refused("tune", *SETTING, "--trials", "1", "--out", "a.json", words=["--out a.json", "holds records"])
        self.run_refused("merge", path, "--out", path, words=["exists already"])
        self.assertEqual(path.read_bytes(), before)

    def test_no_input_is_overwritten(self):
        self.run_ok("tune", *SETTING, "--trials", "1", "--out", "mine.json")
        before = (self.folder / "mine.json").read_bytes()
        for name in ("mine.json", "./mine.json", self.folder / "mine.json"):
            self.run_refused("tune", *SETTING, "--strategy", "mine.json", "--trials", "1", "--out", name, words=["--out", "lost"])
            self.run_refused("plan", *SETTING, "--strategy", "mine.json", "-o", name, words=["--out", "lost"])
        self.run_refused("plan", *SETTING, "--strategy", "managed", "-o", "same.json", "--graph", "./same.json", words=["--graph"])
        self.run_ok("plan", *SETTING, "--strategy", "managed", "--graph", "net.json")
        network = ["--network", "net.json", "--backend", "sim:h200", "--strategy", "managed", "--ratio", "1.5"]
        for words in (["plan", *network, "--out"], ["plan", *network, "--graph"], ["tune", *network, "--trials", "1", "--out"]):
            self.run_refused(*words, "./net.json", words=[words[-1], "lost"])
        self.assertEqual((self.folder / "mine.json").read_bytes(), before)
        self.assertFalse((self.folder / "same.json").exists())

    def test_a_full_disk_leaves_no_half_file(self):
        self.run_ok("plan", *SETTING, "--strategy", "managed", "-o", "plan.json")
        before = (self.folder / "plan.json").read_bytes()
        self.write_records("a.jsonl")
        for command in ("plan --network vgg16 --backend sim:h200 --strategy managed -o plan.json",
                        "plan --network vgg16 --backend sim:h200 --strategy managed -o new.json",
                        "merge a.jsonl --out merged.jsonl"):
            done = self.run_shell(f'trap "" XFSZ; ulimit -f 1; "$U" {command}')
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("cannot write: File too large", done.stderr)
        self.assertEqual((self.folder / "plan.json").read_bytes(), before)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a.jsonl", "plan.json"])

    def test_links_and_modes_stay(self):
        (self.folder / "real.json").write_text("old", encoding="utf-8")
        (self.folder / "real.json").chmod(0o600)
        (self.folder / "link.json").symlink_to("real.json")
        self.run_ok("plan", *SETTING, "--strategy", "managed", "-o", "link.json")
        self.assertTrue((self.folder / "link.json").is_symlink())
        self.assertEqual((self.folder / "real.json").stat().st_mode & 0o777, 0o600)
        self.assertEqual(json.loads((self.folder / "real.json").read_text(encoding="utf-8"))["kind"], "plan")

    def test_records_go_into_a_file_of_their_own(self):
        self.run_refused(*RUN, "device", "--out", "-", words=["-: records go into a file"])
        self.run_refused("sweep", self.write_sweep(), "--out", "-", words=["-: records go into a file"])
        self.run_refused("merge", self.write_records("a.jsonl"), "--out", "-", words=["records go into a file"])
        for streams, word in (("> b.jsonl", "standard output"), ("2> b.jsonl", "standard error")):
            done = self.run_shell(f'"$U" {" ".join(RUN)} device --out b.jsonl {streams}; code=$?; cat b.jsonl >&2; exit $code')
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)
            self.assertNotIn('"kind"', done.stderr)
        os.mkfifo(self.folder / "pipe.jsonl")
        for place in ("pipe.jsonl", "/dev/full"):
            self.run_refused(*RUN, "device", "--out", place, words=[place, "regular file"])
            self.run_refused("sweep", self.write_sweep(), "--out", place, words=[place, "regular file"])


class Streams(FilesTest):
    def test_closed_streams_do_not_become_the_record_file(self):
        spec = self.write_sweep()
        self.run_ok("sweep", spec, "--out", "whole.jsonl")
        for number, closed in enumerate(("<&- 2>&-", "<&- >&-", "<&- >&- 2>&-", ">&-", "2>&-")):
            out = f"{number}.jsonl"
            self.run_shell(f'"$U" sweep {spec} --out {out} {closed}')
            self.assertEqual(read_entries(self.folder / out)[1], read_entries(self.folder / "whole.jsonl")[1], closed)
        self.assertEqual(self.run_shell('"$U" run --network x --strategy device --backend sim:h200 2>&-').returncode, 2)

    def test_a_closed_standard_output_is_told_with_its_reason(self):
        done = self.run_shell('"$U" --version >&-')
        self.assertEqual((done.returncode, done.stderr), (1, "umbench: cannot write standard output: Bad file descriptor\n"))
        done = self.run_shell('"$U" list > /dev/full')
        self.assertEqual((done.returncode, done.stderr), (1, "umbench: cannot write standard output: No space left on device\n"))

    def test_a_full_disk_under_the_log_stops_nothing(self):
        done = self.run_shell(f'"$U" sweep {self.write_sweep()} 2> /dev/full')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(read_entries(self.folder / "study.jsonl")[1]), CELLS)
        self.assertEqual(self.run_shell('"$U" run --network x --strategy device --backend sim:h200 2> /dev/full').returncode, 2)

    def test_a_reader_who_leaves_ends_it_without_a_word(self):
        for command in ("list", f"{' '.join(RUN)} device", f"sweep {self.write_sweep()} --no-skip --out $RANDOM$RANDOM.jsonl"):
            done = self.run_shell(f'"$U" {command} 2> said | true; code=${{PIPESTATUS[0]}}; grep -v "^\\[" said >&2; exit $code')
            self.assertIn(done.returncode, (0, 141), done.stderr)
            self.assertEqual(done.stderr, "")
        reader, writer = os.pipe()
        os.close(reader)
        for ignored in (False, True):  # SIGPIPE
            done = subprocess.run(self.command("list"), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                                  check=False, restore_signals=not ignored)
            self.assertIn(done.returncode, (141, -signal.SIGPIPE))
            self.assertEqual(done.stderr, "")
        os.close(writer)


class Others(FilesTest):
    """Signals, and other processes at the same file."""

    def test_ignored_signals_stay_ignored(self):
        spec = self.write_sweep()
        for number in (signal.SIGHUP, signal.SIGINT):
            out = f"{number.name}.jsonl"
            sweep = subprocess.Popen(self.command("sweep", spec, "--out", out), cwd=self.folder, stderr=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            self.addCleanup(sweep.kill)
            self.wait_until((self.folder / out).exists)
            sweep.send_signal(number)
            self.assertEqual(sweep.wait(timeout=PATIENCE_S), 0)
            self.assertEqual(len(read_entries(self.folder / out)[1]), CELLS)

    def test_ignored_children_are_seen_all_the_same(self):
        done = self.umbench(*RUN, "device", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_runs_into_one_file_wait_for_each_other_and_not_for_cells(self):
        hang = dict(os.environ, UMBENCH_TEST_CELL="hang:managed/")
        slow = subprocess.Popen(self.command(*RUN, "managed", "--out", "a.jsonl"), cwd=self.folder, env=hang,
                                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(slow.stderr.close)
        self.addCleanup(slow.kill)
        self.wait_until((self.folder / "a.jsonl").exists)
        many = [threading.Thread(target=self.run_ok, args=(*RUN, "device", "--iterations", str(n + 1), "--out", "a.jsonl"))
                for n in range(12)]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()
        self.assertIsNone(slow.poll())
        slow.kill()
        slow.wait()
        environments, records = read_entries(self.folder / "a.jsonl")
        self.assertEqual((len(environments), len(records)), (1, 12))
        self.assertEqual({record["iterations"] for record in records}, set(range(1, 13)))

    def test_a_run_waits_for_a_sweep_into_the_same_file(self):
        sweep = subprocess.Popen(self.command("sweep", self.write_sweep(), "--out", "a.jsonl", "--jobs", "1"), cwd=self.folder,
                                 env=dict(os.environ, UMBENCH_TEST_CELL="hang:swap_all/x2"),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(sweep.kill)
        path = self.folder / "a.jsonl"
        self.wait_until(lambda: path.exists() and path.read_text(encoding="utf-8").count("\n") == CELLS // 2)
        self.run_refused("sweep", self.write_sweep(), "--out", "a.jsonl", "--resume", words=["a.jsonl", "another umbench"])
        run = subprocess.Popen(self.command(*RUN, "managed", "--ratio", "3", "--out", "a.jsonl"), cwd=self.folder, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(run.kill)
        self.assertIn("a.jsonl: waiting for another umbench", run.stderr.readline())
        sweep.kill()
        sweep.wait()
        self.assertEqual((run.wait(timeout=PATIENCE_S), run.stderr.read()), (0, ""))
        run.stderr.close()
        self.assertEqual(len(read_entries(path)[1]), CELLS // 2)

    def test_a_file_that_is_removed_meanwhile_is_missed(self):
        spec = self.write_sweep()
        sweep = subprocess.Popen(self.command("sweep", spec, "--out", "a.jsonl", "--jobs", "1"), cwd=self.folder, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(sweep.kill)
        path = self.folder / "a.jsonl"
        self.wait_until(lambda: path.exists() and path.read_text(encoding="utf-8").count("\n") > 1)
        path.unlink()
        _, said = sweep.communicate(timeout=PATIENCE_S)
        self.assertEqual(sweep.returncode, 1)
        self.assertIn("a.jsonl: was removed or replaced", said.splitlines()[-1])


class Commands(FilesTest):
    def test_the_command_that_goes_on_can_be_pasted(self):
        for name in ("it's a.json", "a`b.json", "a b!.json", "$HOME.json", "-x.json"):
            spec = self.write_file(name, json.loads(self.write_sweep().read_text(encoding="utf-8")))
            given = f"./{name}"
            environment = dict(os.environ, UMBENCH_TEST_CELL="hang:")
            sweep = subprocess.Popen(self.command("sweep", given, "--out", f"./{name}l"), cwd=self.folder, env=environment,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(sweep.kill)
            self.wait_until((self.folder / f"{name}l").exists)
            sweep.send_signal(signal.SIGINT)
            _, said = sweep.communicate(timeout=PATIENCE_S)
            command = said.splitlines()[-1].split("go on with: ")[1]
            words = self.run_shell(f"printf '%s\\n' {command}").stdout.splitlines()
            self.assertEqual(words, ["umbench", "sweep", given, "--out", f"./{name}l", "--resume"])
            spec.unlink()
