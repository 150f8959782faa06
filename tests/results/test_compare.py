"""`umbench compare` as its users meet it."""

import json
import sys

import numpy
import pytest
import synthetic


def measured_record(ratio, seed, time_factor=1.0, later_count=10, **changes):
    """A measured record at that ratio of memory to budget. Its times, with noise of 1 % from `seed`, are multiplied by `time_factor`."""
    times = 1e8 * time_factor * numpy.exp(0.01 * numpy.random.default_rng(seed).standard_normal(later_count + 1))
    changes = {"samples_ns": [int(time) for time in times], **changes}
    return synthetic.record(backend="cuda:0", device="made up", ratio=ratio, **changes)


def environment(**gpu):
    return synthetic.environment() | {"gpu": synthetic.gpu(driver="1.0") | gpu}


def study(seed, time_factor=1.0, **changes):
    return [environment()] + [measured_record(ratio, seed * 100 + number, time_factor, **changes)
                              for number, ratio in enumerate((0.5, 0.9, 1.5))]


def test_unchanged_code(umbench, write):
    done = umbench("compare", write("base.jsonl", study(1)), write("head.jsonl", study(2)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok: 3 measured cells, 3 ok\ngeometric mean of 3 measured cells: ") and done.stderr == ""
    assert "limit 5 % and 10 us" in done.stdout and "umbench 0.1.0+unknown, made up" in done.stdout


def test_a_regression_fails_and_is_named(umbench, write):
    head = study(2)
    head[2] = measured_record(0.9, 7, time_factor=1.2)
    done = umbench("compare", write("base.jsonl", study(1)), write("head.jsonl", head))
    assert done.returncode == 1
    assert done.stdout.startswith("regressed: 3 measured cells, 1 regressed, 2 ok")
    row = next(line for line in done.stdout.splitlines() if line.startswith("regressed "))
    assert "/x0.90/" in row and "+2" in row


def test_too_few_samples_are_reported(umbench, write):
    done = umbench("compare", write("base.jsonl", study(1, later_count=1)), write("head.jsonl", study(2, 1.2, later_count=1)))
    assert done.returncode == 3 and "3 insufficient" in done.stdout and "4 (--iterations 5) the standard" in done.stdout
    assert done.stdout.count("+2") + done.stdout.count("+1") >= 3  # the change is reported nevertheless


def test_rounds_are_judged_separately(umbench, write):
    """The machine becomes 4 % slower every round, HEAD is 10 % slower in each."""
    def write_runs(name, seed, time_factor):
        for number in range(5):
            path = write(f"{name}/{number}.jsonl", study(seed + number, time_factor=time_factor * 1.04**number))
        return path.parent

    base = write_runs("base", 1, 1.0)
    assert umbench("compare", base, write_runs("same", 20, 1.0)).returncode == 0
    done = umbench("compare", base, write_runs("slow", 40, 1.1))
    assert done.returncode == 1 and "3 regressed" in done.stdout and "within 5 rounds" in done.stdout
    (write_runs("odd", 60, 1.0) / "4.jsonl").rename(base.parent / "odd/x.jsonl")
    assert "2 files without a namesake on the other side" in umbench("compare", base, "odd").stdout


def test_other_aspects_than_time_regress_too(umbench, write):
    def write_head(**changes):
        entries = study(2)
        entries[2] |= changes
        return write("head.jsonl", entries)

    memory = synthetic.record(ratio=0.9)["memory"]
    base = write("base.jsonl", study(1, digest="0" * 16, loss=2.5))
    same = dict(digest="0" * 16, loss=2.5)
    for aspect, changes, words in [
            ("peak", {"memory": memory | {"peak_device_bytes": 16 * 2**30}, **same}, "peak 8 GiB -> 16 GiB"),
            ("footprint", {"memory": memory | {"footprint_bytes": 9 * 2**30}, **same}, "footprint 8 GiB -> 9 GiB"),
            ("loss", same | {"loss": 2.6}, "loss 2.5 -> 2.6"), ("digest", same | {"digest": "1" * 16}, "digest 0000")]:
        path = write_head(**changes)
        done = umbench("compare", base, path)
        assert done.returncode == 1 and words in done.stdout, aspect
        done = umbench("compare", base, path, "--fail-on", "time,mean")
        assert done.returncode == 0 and words in done.stdout and "1 tolerated" in done.stdout
        assert umbench("compare", base, path, "--fail-on", aspect).returncode == 1
    assert umbench("compare", base, write_head(**same, memory=memory | {"peak_device_bytes": 9 * 2**30}), "--limit",
                   "peak=20%").returncode == 0
    assert "BASE knows the digest of" in umbench("compare", base, write("head.jsonl", study(2))).stdout


def test_a_cell_that_fails_in_one_round_of_head(umbench, write):
    for number in range(3):
        base = write(f"base/{number}.jsonl", study(number)).parent
        entries = study(10 + number)
        if number == 1:
            entries[1] = measured_record(0.5, 1, outcome="crashed", samples_ns=[])
        head = write(f"head/{number}.jsonl", entries).parent
    done = umbench("compare", base, head)
    assert done.returncode == 1 and "was ok, is crashed (made up) in 1 of 3 runs" in done.stdout
    assert umbench("compare", head, head).returncode == 0


def test_two_speeds_are_named(umbench, write):
    base, entries = study(1, later_count=12), study(2, later_count=12)
    entries[1]["samples_ns"] = [time * (3 if number % 3 == 2 else 1) for number, time in enumerate(entries[1]["samples_ns"])]
    sides = write("base.jsonl", base), write("head.jsonl", entries)
    done = umbench("compare", *sides)
    assert done.returncode == 0 and "two speeds now: 8 iterations at " in done.stdout
    assert umbench("compare", *sides, "--fail-on", "modes").returncode == 1
    assert umbench("compare", *sides, "--strict").returncode == 3


@pytest.mark.parametrize("outcome, verdict, code", [("crashed", "regressed", 1), ("infeasible", "regressed", 1),
                                                    ("timeout", "regressed", 1)])
def test_a_cell_that_fails_now(umbench, write, outcome, verdict, code):
    head = study(2)
    head[1] = measured_record(0.5, 1, outcome=outcome, samples_ns=[])
    done = umbench("compare", write("base.jsonl", study(1)), write("head.jsonl", head))
    assert done.returncode == code and f"was ok, is {outcome} (made up)" in done.stdout
    back = umbench("compare", write("base.jsonl", head), write("head.jsonl", study(1)))
    assert back.returncode == 0 and "1 improved" in back.stdout


def test_cells_that_fail_on_both_sides_are_reported(umbench, write):
    sides = [write(f"{name}.jsonl", study(1) + [measured_record(4.0, 1, outcome="crashed", samples_ns=[])]) for name in "ab"]
    assert umbench("compare", *sides).returncode == 3
    sides = [write(f"{name}.jsonl", study(1) + [measured_record(4.0, 1, outcome="infeasible", samples_ns=[])]) for name in "ab"]
    assert umbench("compare", *sides).returncode == 0


def test_a_missing_cell_is_reported_and_a_new_one_is_not_judged(umbench, write):
    short, long = write("short.jsonl", study(1)[:-1]), write("long.jsonl", study(2))
    done = umbench("compare", long, short)
    assert done.returncode == 3 and "not in HEAD" in done.stdout
    done = umbench("compare", short, long)
    assert done.returncode == 0 and "only HEAD has 1 cell, not judged" in done.stdout


def test_unlike_environments_are_refused_unless_allowed(umbench, write):
    base = write("base.jsonl", study(1))
    head = write("head.jsonl", [environment(driver="2.0"), *study(2)[1:]])
    done = umbench("compare", base, head)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "gpu.driver: 1.0 / 2.0" in done.stderr and "--allow-unlike" in done.stderr
    done = umbench("compare", base, head, "--allow-unlike")
    assert done.returncode == 0 and "gpu.driver: 1.0 / 2.0" in done.stdout


def test_another_gpu_of_the_same_model_is_reported(umbench, write):
    sides = [write(f"{name}.jsonl", [environment(facts={"uuid_hash": name}), *study(seed)[1:]])
             for seed, name in enumerate("ab", 1)]
    done = umbench("compare", *sides)
    assert done.returncode == 0 and "two GPUs of one model" in done.stdout
    done = umbench("compare", *sides, "--same-gpu")
    assert done.returncode == 2 and "two GPUs of one model" in done.stderr and done.stderr.count("\n") == 1
    assert umbench("compare", sides[0], sides[0], "--same-gpu").returncode == 0


def test_a_disturbed_cell_is_reported(umbench, write):
    hot = synthetic.observed(gpu_after=synthetic.gpu_state(throttled_by=["hw_thermal_slowdown"], other_processes=0))
    head = study(2)
    head[1] |= {"observed": hot}
    done = umbench("compare", write("base.jsonl", study(1)), write("head.jsonl", head))
    assert done.returncode == 0
    assert "1 cell of HEAD ran beside or under hw_thermal_slowdown, such as " in done.stdout
    found = json.loads(umbench("compare", write("base.jsonl", study(1)), write("head.jsonl", head), "--format",
                               "json").stdout)
    assert len(found["disturbed"]) == 1 and [text[:16] for text in found["noted"]] == ["one sweep a side"]


def test_pairs_of_runs_are_judged_one_by_one(umbench, write):
    for number in range(3):
        base = write(f"base/{number}.jsonl", study(number)).parent
        head = write(f"head/{number}.jsonl", study(10 + number, time_factor=1.2 if number == 1 else 1.0)).parent
    write("head/other.jsonl", study(99))
    done = umbench("compare", base, head, "--pairs")
    assert done.returncode == 1
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["pair", "cells", "regressed", "insufficient", "unlike", "tolerated", "ambiguous", "improved", "ok", "largest",
                        "change"]
    assert [line[:3] + [line[8]] for line in lines[1:4]] == [["0", "3", "0", "3"], ["1", "3", "3", "0"], ["2", "3", "0", "3"]]
    assert lines[2][9].startswith("+") and done.stdout.endswith("3 pairs, 1 of them regressed\n")
    done = umbench("compare", base, head, "--pairs", "--format", "markdown")
    assert done.stdout.startswith("| pair | cells |") and done.stdout.count("\n|") == 4
    for arguments, words in [((base, write("file.jsonl", study(1)), "--pairs"), "two folders"),
                             ((base, write("none/x.jsonl", study(1)).parent, "--pairs"), "no *.jsonl of one name"),
                             ((base, head, "--pairs", "--format", "json"), "not JSON")]:
        done = umbench("compare", *arguments)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1


def test_simulated_cells_must_be_equal(umbench, write):
    def write_side(name, **changes):
        return write(name, [synthetic.environment(), synthetic.record(), synthetic.record(ratio=2.0, **changes)])

    base = write_side("base.jsonl")
    assert umbench("compare", base, write_side("same.jsonl")).returncode == 0
    time = synthetic.made_up_time_ns("managed", 2.0)
    done = umbench("compare", base, write_side("slow.jsonl", samples_ns=[2 * time] + [time + 2 + step for step in range(4)]))
    assert done.returncode == 1 and "simulated times must be equal" in done.stdout
    done = umbench("compare", base, write_side("fast.jsonl", samples_ns=[time] * 5))
    assert done.returncode == 0 and "1 improved" in done.stdout
    done = umbench("compare", base, write_side("bytes.jsonl", counters={"first": synthetic.counters(faults=1), "last": synthetic.counters(faults=2)}))
    assert done.returncode == 0 and "equal median, but counters differs" in done.stdout
    done = umbench("compare", base, write_side("bytes.jsonl", counters={"first": synthetic.counters(), "last": synthetic.counters()}), "--strict")
    assert done.returncode == 3


def test_a_counter_that_one_side_lacks_is_no_difference(umbench, write):
    def write_side(name, **more_counters):
        counters = {which: synthetic.counters(faults=5, **more_counters) for which in ("first", "last")}
        return write(name, [synthetic.environment(), synthetic.record(counters=counters)])

    old, new = write_side("old.jsonl"), write_side("new.jsonl", amplification=1.5)
    assert umbench("compare", old, new, "--strict").returncode == 0
    assert umbench("compare", new, write_side("other.jsonl", amplification=2.5), "--strict").returncode == 3


def test_noise_is_estimated_from_runs_in_folders(umbench, write):
    def write_runs(name, time_factors, seed):
        for number, factor in enumerate(time_factors):
            path = write(f"{name}/{number}.jsonl", study(seed + number, time_factor=factor))
        return path.parent

    base, head = write_runs("base", [1.0, 1.1, 0.9, 1.05], 10), write_runs("head", [1.05, 1.2, 1.15, 1.0], 20)
    assert umbench("compare", base, head).returncode == 0  # such shifts happen between runs of one code
    for path in head.iterdir():
        path.rename(head / f"later{path.name}")
    done = umbench("compare", base, head)
    assert done.returncode == 0 and "no two files of BASE and HEAD have one name" in done.stdout
    quiet = write_runs("quiet", [1.0, 1.0, 1.0, 1.0], 30)
    assert umbench("compare", quiet, write_runs("slow", [1.1] * 4, 40)).returncode == 1
    one = write("one.jsonl", study(1)), write("other.jsonl", study(2, time_factor=1.1))
    assert umbench("compare", *one).returncode == 1
    assert umbench("compare", *one, "--noise", base).returncode == 0
    assert umbench("compare", *one, "--noise", quiet).returncode == 1


def test_markdown_and_json(umbench, write, tmp_path):
    sides = write("base.jsonl", study(1)), write("head.jsonl", study(2, time_factor=1.2))
    done = umbench("compare", *sides, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("### umbench: regressed: 3 measured cells, 3 regressed\n\n- geometric mean of 3 ")
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(table) == 5 and {line.count("|") for line in table} == {10}
    assert "VGG-16, batch 64, training, fp32, fused: managed at 0.5, capped, workspace 2 GiB, made up" in done.stdout
    assert "umbench 0.1.0+unknown, made up" in done.stdout and "vgg16/b64" not in "".join(table)
    done = umbench("compare", *sides, "--format", "json", "--out", "found.json")
    assert done.returncode == 1 and done.stdout == ""
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["counts"] == {"regressed": 3, "insufficient": 0, "unlike": 0, "tolerated": 0, "ambiguous": 0, "improved": 0, "ok": 0}
    assert found["verdict"] == "regressed" and found["mean"]["verdict"] == "regressed"
    assert found["exit_code"] == 1 and len(found["cells"]) == 3
    assert all(cell["base_samples"] == 10 and cell["low"] < cell["change"] < cell["high"] for cell in found["cells"])


@pytest.mark.parametrize("arguments, words", [
    (["compare"], ["BASE"]), (["compare", "a.jsonl", "b.jsonl"], ["a.jsonl", "No such file"]),
    (["compare", "a", "b", "--alpha", "2"], ["--alpha", "probability"]),
    (["compare", "a", "b", "--relative", "-5%"], ["--relative"]),
    (["compare", "a", "b", "--absolute", "5"], ["--absolute", "10us"]),
    (["compare", "a", "b", "--absolute", "9" * 400 + "s"], ["--absolute", "10us"]),
    (["compare", "a", "b", "--limit", "link"], ["--limit", "'' is no share"]),
    (["compare", "a", "b", "--limit", "speed=1%"], ["--limit", "link=10%"]),
    (["compare", "a", "b", "--fail-on", "time,speed"], ["--fail-on", "'speed' is none of", "digest"]),
    (["compare", "", "b"], ["empty path"]),
    (["compare", "a", "b", "--correction", "none"], ["--correction", "bh", "holm"]),
    (["compare", ".", "b"], ["no *.jsonl"])])
def test_bad_usage_is_one_line(umbench, arguments, words):
    done = umbench(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("umbench: ")
    for word in words:
        assert word in done.stderr


def test_inputs_that_are_no_record_files_are_errors(umbench, write, tmp_path):
    (tmp_path / "diary.jsonl").write_text("dear diary\n", encoding="utf-8")
    done = umbench("compare", "diary.jsonl", write("b.jsonl", study(1)))
    assert done.returncode == 2 and "diary.jsonl:1" in done.stderr
    done = umbench("compare", write("empty.jsonl", []), write("b.jsonl", study(1)))
    assert done.returncode == 3 and "no cell in common" in done.stderr
    done = umbench("compare", write("new.jsonl", [synthetic.record() | {"schema": 2}]), write("b.jsonl", study(1)))
    assert done.returncode == 2 and "new.jsonl:1: schema 2 is from a newer umbench; this reader knows 1" in done.stderr


def test_missing_packages_are_named(umbench, tmp_path):
    python = tmp_path / "python"  # sees no packages but Python's own
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -E -S \"$@\"\n", encoding="utf-8")
    python.chmod(0o755)
    for command in (["compare", "a", "b"], ["report", "a", "--out", "b"]):
        done = umbench(*command, UMBENCH_PYTHON=str(python))
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert "lacks" in done.stderr and "UMBENCH_PYTHON" in done.stderr and "python3-" in done.stderr


def test_packages_made_for_another_python_are_named(umbench, tmp_path):
    (tmp_path / "scipy.py").write_text("raise TypeError('made for another Python')\n", encoding="utf-8")
    done = umbench("compare", "a", "b", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "cannot import scipy (TypeError: made for another Python)" in done.stderr and "UMBENCH_PYTHON" in done.stderr


def test_the_script_is_found_or_an_error_names_it(umbench, tmp_path):
    done = umbench("compare", "a", "b", UMBENCH_HOME=str(tmp_path))
    assert done.returncode == 2 and "UMBENCH_HOME" in done.stderr
    done = umbench("compare", "a", "b", UMBENCH_PYTHON=str(tmp_path / "python"))
    assert done.returncode == 2 and "UMBENCH_PYTHON" in done.stderr
    shown = umbench("compare", "--help").stdout
    assert "Exit codes" in shown and "--relative SHARE" in shown and "%%" not in shown


# --- what a reader may take for a change of the code ---

def test_a_changed_machine_file_is_named(umbench, write):
    def write_side(name, figures_digest, time_ns):
        return write(name, [synthetic.environment(), *(synthetic.record(ratio=ratio, time_ns=time_ns, figures_digest=figures_digest)
                                                       for ratio in (1.0, 1.5))])

    base = write_side("base.jsonl", "0" * 16, 10**8)
    done = umbench("compare", base, write_side("head.jsonl", "1" * 16, 11 * 10**7))
    assert done.returncode == 3 and done.stdout.startswith(
        "machine file h200 changed (figures_digest), 2 cells not judged (--allow-unlike judges them); unlike: 2 simulated cells, 2 unlike\n")
    assert done.stdout.count("another machine file") == 2 and "regressed" not in done.stdout and "equal" not in done.stdout
    done = umbench("compare", base, write_side("head.jsonl", "1" * 16, 11 * 10**7), "--allow-unlike")
    assert done.returncode == 1 and done.stdout.startswith(
        "machine file h200 changed (figures_digest), which may explain 2 cells; regressed: 2 simulated cells, 2 regressed\n")
    assert "machine file h200 changed" not in umbench("compare", base, write_side("same.jsonl", "0" * 16, 11 * 10**7)).stdout


def test_the_first_line_names_a_regression_of_the_mean_alone(umbench, write):
    cells = [(0.1 + number / 10) for number in range(30)]
    sides = [write(name, [environment()] + [measured_record(ratio, seed * 100 + number, slower, later_count=5) for number, ratio in enumerate(cells)])
             for name, seed, slower in (("base.jsonl", 1, 1.0), ("head.jsonl", 2, 1.04))]
    done = umbench("compare", *sides)
    first = done.stdout.splitlines()[0]
    assert done.returncode == 1 and first.startswith("regressed by the mean of all cells: 30 measured cells, "), done.stdout
    assert " regressed," not in first.removeprefix("regressed by")


def test_drift_between_two_plain_sweeps_is_named(umbench, write):
    """HEAD's GPU is warmer and runs at 96 % of BASE's clock: every cell is slower, and no code changed."""
    def write_side(name, seed, clock_mhz, time_factor):
        state = synthetic.observed(gpu_after=synthetic.gpu_state(sm_clock_mhz=clock_mhz))
        return write(name, study(seed, time_factor, observed=state))

    base = write_side("base.jsonl", 1, 1980, 1.0)
    done = umbench("compare", base, write_side("head.jsonl", 2, 1900, 1980 / 1900))
    assert "one sweep a side: a GPU that warms up or slows down between them looks like a change" in done.stdout
    assert "did drift: 1980 MHz in BASE, 1900 MHz in HEAD (-4.0%)" in done.stdout
    assert "did drift" not in umbench("compare", base, write_side("same.jsonl", 3, 1975, 1.0)).stdout
    for number in range(2):
        for folder in ("b", "h"):
            write_side(f"{folder}/{number}.jsonl", 10 + number, 1980, 1.0)
    assert "one sweep a side" not in umbench("compare", "b", "h").stdout
