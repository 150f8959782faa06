"""umbench trace leaves the program as it is, and joins the files of its processes."""

import json
import signal
import subprocess
import sys

# Stands for the library in a program: writes lines as it does.
STAND_IN = """
import json, os, sys
with open(os.environ["UMBENCH_TRACE_OUT"] + "." + str(os.getpid()), "a") as file:
    file.write(json.dumps({"kind": "environment", "schema": 1, "tool": "umbench trace", "process": os.getpid(), "program": ["stand-in"],
                           "start_ns": %d}) + "\\n")
    file.write(json.dumps({"kind": "end", "at_ns": 5}) + "\\n")
"""


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_output_and_exit_code_pass_unchanged(umbench, tmp_path):
    done = umbench("trace", "--out", "run.jsonl", "--", sys.executable, "-c",
                   "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert done.stderr.splitlines()[0] == "err"
    environment, lacking = lines(tmp_path / "run.jsonl")
    assert environment["kind"] == "environment" and lacking["kind"] == "lacking"


def test_a_signal_ends_both(umbench, tmp_path):
    done = umbench("trace", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "trace.jsonl").is_file()


def test_sigterm_reaches_the_program(umbench, tmp_path):
    program = "import signal, sys; signal.signal(15, lambda *_: sys.exit(5)); print('ready', flush=True); signal.pause()"
    running = subprocess.Popen([umbench.program, "trace", "--", sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait() == 5


def test_files_of_child_processes_are_joined_in_order(umbench, tmp_path):
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {STAND_IN % 20!r}])\n{STAND_IN % 10}"
    done = umbench("trace", "--out", "run.jsonl", "--", sys.executable, "-c", program)
    assert done.returncode == 0
    starts = [line["start_ns"] for line in lines(tmp_path / "run.jsonl") if line["kind"] == "environment"]
    assert starts == [10, 20]
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_the_library_and_its_file_are_named_to_the_program(umbench, tmp_path):
    program = "import os; print(os.environ['CUDA_INJECTION64_PATH'], os.environ['UMBENCH_TRACE_OUT'])"
    done = umbench("trace", "--out", "run.jsonl", "--", sys.executable, "-c", program, UMBENCH_TRACE_LIBRARY="/some/lib.so")
    assert done.stdout.split() == ["/some/lib.so", str(tmp_path / "run.jsonl")]
    assert "no process of it started CUDA" in lines(tmp_path / "run.jsonl")[1]["what"]


def test_whole_traces_ask_for_all_of_the_time(umbench):
    program = "import os; print(os.environ.get('UMBENCH_TRACE_SHARE'))"
    assert umbench("trace", "--", sys.executable, "-c", program).stdout == "None\n"
    assert umbench("trace", "--whole", "--", sys.executable, "-c", program).stdout == "1\n"


def test_a_second_run_is_silent_and_leaves_its_times(umbench, tmp_path):
    program = f"import os\n{STAND_IN % 10}\nprint('ran', 'UMBENCH_TRACE_TIMES' in os.environ)"
    done = umbench("trace", "--out", "run.jsonl", "--twice", "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "ran False\n")
    roles = [line.get("role") for line in lines(tmp_path / "run.jsonl") if line["kind"] == "environment"]
    assert roles == [None, "times"]


def test_wrong_calls_name_the_mistake(umbench):
    for words, code, told in (((), 2, "umbench: names no program: umbench trace [OPTIONS] -- PROGRAM ARGUMENTS; see umbench trace --help\n"),
                              (("--out", "no/folder/run.jsonl", "--", "true"), 2,
                               "umbench: trace: --out no/folder/run.jsonl: there is no folder no/folder; make it first\n"),
                              (("--", "no-such-program"), 127, "umbench: trace: there is no program no-such-program\n")):
        done = umbench("trace", *words)
        assert done.returncode == code and done.stderr.startswith(told)


def test_places_get_the_names_of_their_functions(umbench, tmp_path):
    (tmp_path / "p.c").write_text("int work(int x) { return x + 1; }\nint main(void) { return work(-1); }\n", encoding="utf-8")
    if subprocess.run(["gcc", "-g", "-O0", "-o", "p", "p.c"], cwd=tmp_path, check=False).returncode != 0:
        return
    symbols = subprocess.run(["nm", "p"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    at = next(line.split()[0] for line in symbols.splitlines() if line.endswith(" work")).lstrip("0")
    place = f"{tmp_path / 'p'}+0x{at}"
    program = STAND_IN % 10 + f"""
with open(os.environ["UMBENCH_TRACE_OUT"] + "." + str(os.getpid()), "a") as file:
    file.write('{{"kind":"name","id":0,"name":"{place}"}}\\n')
"""
    assert umbench("trace", "--out", "run.jsonl", "--", sys.executable, "-c", program).returncode == 0
    names = [line["name"] for line in lines(tmp_path / "run.jsonl") if line["kind"] == "name"]
    assert names == [f"{place} work (p.c:1)"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "p.c", "run.jsonl"]
