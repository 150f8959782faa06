"""Runs a sweep by two programs in turn on one machine, so that drift affects both alike.

In each round both programs run every cell once, one right after the other; the order changes from round to round. DIR/base and DIR/head
get one record file for each round: `umbench compare DIR/base DIR/head` judges them. The same program on both sides shows the noise. An
interrupted run continues if it is started again.

--more N: cells whose times are ambiguous after these rounds run N more. They are chosen once: choosing again after each round, until some
cell changed, would take noise for a change.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from umbench import arguments, dependencies, load, output


def main():
    options = arguments.parse_interleave(__doc__)
    if options.more:
        dependencies.require("numpy", "scipy")
    programs = {"base": executable_path(options.base), "head": executable_path(options.head)}
    cells = count_cells(programs["head"], options)
    for side in programs:
        ensure_side_folder(options.out, side)
    failed = {}
    for number in range(1, options.rounds + 1):
        failed |= run_round(programs, options, number, range(1, cells + 1), cells)
        output.print_to_stderr(f"round {number} of {options.rounds} done")
    left = numbers_of_ambiguous_cells(options) if options.more else []
    if left:
        output.print_to_stderr(f"{load.count_text(len(left), 'cell')} of {cells} left open: {load.count_text(options.more, 'round')} more of them")
    for number in range(options.rounds + 1, options.rounds + options.more + 1) if left else ():
        failed |= run_round(programs, options, number, left, cells)
        output.print_to_stderr(f"round {number} of {options.rounds + options.more} done")
    for (side, number, key), text in failed.items():
        output.print_to_stderr(f"umbench: round {number} of {side}: {key}: {text}")
    output.write(f"compare them with: umbench compare {options.out}/base {options.out}/head\n")
    return 1 if failed else 0


def run_round(program_by_side, options, round_number, cell_numbers, cell_count):
    """Runs a round; returns {(side, round_number, key): error} of the cells that failed."""
    failed = {}
    for done, cell in enumerate(cell_numbers):
        for side in ("base", "head") if round_number % 2 else ("head", "base"):
            out = Path(options.out) / side / f"{round_number}.jsonl"
            run_cell(program_by_side[side], options, out, cell, cell_count, done + 1)
            failed |= {(side, round_number, key): text for key, text in failures_in(out).items()}
    return failed


def numbers_of_ambiguous_cells(options):
    """Numbers of the cells whose change of time is ambiguous after the rounds that all cells ran."""
    from umbench import comparison, run_folders  # imported here, since it needs SciPy and the rest of interleave does not

    keys = [record["key"] for record in records_in(Path(options.out) / "base/1.jsonl")]
    sides = []
    for side in ("base", "head"):
        files = [Path(options.out) / side / f"{number}.jsonl" for number in range(1, options.rounds + 1)]
        read = [run_folders.read_side(file, lambda text: None) for file in files]
        sides.append(run_folders.Side(side, sum((each.environments for each in read), []), sum((each.runs for each in read), []),
                               [file.name for file in files]))
    found = comparison.compare_sides(*sides, arguments.parse_compare("As compare.", ["base", "head", "--allow-unlike"]))
    unsure = {row.key for row in found.rows if row.finding.verdict == "ambiguous" and not row.simulated}
    return [number for number, key in enumerate(keys, 1) if key in unsure]


def executable_path(path):
    """The resolved path of a program. Throws BadInput if it cannot be run."""
    resolved = Path(path).resolve()
    if not (resolved.is_file() and os.access(resolved, os.X_OK)):
        raise load.BadInput(f"{path}: is no program; give the path of an umbench")
    return resolved


def ensure_side_folder(out_folder, side_name):
    """Makes the folder of a side unless it exists. Throws BadInput if it cannot."""
    load.refuse_empty_path(out_folder)
    try:
        (Path(out_folder) / side_name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"--out {out_folder}: {error.strerror}") from error


def run_sweep(program, options, *extra_options):
    command = [program, "sweep", options.spec, *extra_options]
    if options.machines:
        command += ["--machines", options.machines]
    try:
        return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              encoding="utf-8", errors="backslashreplace", check=False)
    except OSError as error:  # for instance a program for another architecture
        raise load.BadInput(f"{program}: cannot be run: {error.strerror}") from error


def count_cells(program, options):
    done = run_sweep(program, options, "--list")
    found = re.search(r"(?m)^(\d+) cells", done.stdout)
    if done.returncode != 0 or not found:
        raise load.BadInput(last_message(done.stderr) or f"{program}: does not list the cells of {options.spec}")
    return int(found[1])


def run_cell(program, options, out, cell_number, cell_count, min_records):
    """Runs the cell with this number, of `cell_count`. Throws BadInput unless the file then has `min_records` records of any outcome."""
    done = run_sweep(program, options, "--out", out, "--resume", "--no-preflight", "--shard", f"{cell_number}/{cell_count}")
    if done.returncode not in (0, 1):
        raise load.BadInput(f"{program}: {last_message(done.stderr) or exit_text(done.returncode)}")
    if len(records_in(out)) < min_records:
        reason = last_message(done.stderr)
        raise load.BadInput(f"{program}: wrote no record of cell {cell_number} to {out}" + (f": {reason}" if reason else ""))


def exit_text(code):
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}, without a word"


def records_in(record_file):
    """The records of a file; [] if it does not exist yet."""
    return load.read(record_file, lambda text: None)[1] if record_file.exists() else []


def failures_in(record_file):
    """{key: error} of the cells in the file that failed."""
    return {record["key"]: f"{record['outcome']}: {record['reason']}" for record in records_in(record_file)
            if record["outcome"] not in ("ok", "infeasible")}


def last_message(text):
    return text.strip().splitlines()[-1].removeprefix("umbench: ") if text.strip() else ""


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
