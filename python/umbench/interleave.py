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
    program_by_side = {"base": executable_path(options.base), "head": executable_path(options.head)}
    cell_count = count_cells(program_by_side["head"], options)
    for side in program_by_side:
        ensure_side_folder(options.out, side)
    error_by_cell = {}
    for round_number in range(1, options.rounds + 1):
        error_by_cell |= run_round(program_by_side, options, round_number, range(1, cell_count + 1), cell_count)
        output.print_to_stderr(f"round {round_number} of {options.rounds} done")
    ambiguous_cell_numbers = numbers_of_ambiguous_cells(options) if options.more else []
    if ambiguous_cell_numbers:
        output.print_to_stderr(f"{load.count_text(len(ambiguous_cell_numbers), 'cell')} of {cell_count} left open: "
                               f"{load.count_text(options.more, 'round')} more of them")
    for round_number in range(options.rounds + 1, options.rounds + options.more + 1) if ambiguous_cell_numbers else ():
        error_by_cell |= run_round(program_by_side, options, round_number, ambiguous_cell_numbers, cell_count)
        output.print_to_stderr(f"round {round_number} of {options.rounds + options.more} done")
    for (side, round_number, key), text in error_by_cell.items():
        output.print_to_stderr(f"umbench: round {round_number} of {side}: {key}: {text}")
    output.write(f"compare them with: umbench compare {options.out}/base {options.out}/head\n")
    return 1 if error_by_cell else 0


def run_round(program_by_side, options, round_number, cell_numbers, cell_count):
    """Runs a round; returns {(side, round_number, key): error} of the cells that failed."""
    error_by_cell = {}
    for cells_done, cell_number in enumerate(cell_numbers):
        for side in ("base", "head") if round_number % 2 else ("head", "base"):
            record_file = Path(options.out) / side / f"{round_number}.jsonl"
            run_cell(program_by_side[side], options, record_file, cell_number, cell_count, cells_done + 1)
            error_by_cell |= {(side, round_number, key): error for key, error in failures_in(record_file).items()}
    return error_by_cell


def numbers_of_ambiguous_cells(options):
    """Numbers of the cells whose change of time is ambiguous after the rounds that all cells ran."""
    from umbench import comparison, run_folders  # imported here, since it needs SciPy and the rest of interleave does not

    keys = [record["key"] for record in records_in(Path(options.out) / "base/1.jsonl")]
    sides = []
    for side in ("base", "head"):
        files = [Path(options.out) / side / f"{round_number}.jsonl" for round_number in range(1, options.rounds + 1)]
        sides_of_rounds = [run_folders.read_side(file, lambda text: None) for file in files]
        sides.append(run_folders.Side(side, sum((each.environments for each in sides_of_rounds), []),
                                      sum((each.runs for each in sides_of_rounds), []),
                                      [file.name for file in files]))
    result = comparison.compare_sides(*sides, arguments.parse_compare("As compare.", ["base", "head", "--allow-unlike"]))
    ambiguous_keys = {row.key for row in result.rows if row.finding.verdict == "ambiguous" and not row.simulated}
    return [cell_number for cell_number, key in enumerate(keys, 1) if key in ambiguous_keys]


def executable_path(path):
    """The resolved path of a program. Throws BadInput if it cannot be run."""
    resolved_path = Path(path).resolve()
    if not (resolved_path.is_file() and os.access(resolved_path, os.X_OK)):
        raise load.BadInput(f"{path}: is no program; give the path of an umbench")
    return resolved_path


def ensure_side_folder(out_folder, side_name):
    """Makes the folder of a side unless it exists. Throws BadInput if it cannot."""
    load.refuse_empty_path(out_folder)
    try:
        (Path(out_folder) / side_name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"--out {out_folder}: {error.strerror}") from error


def run_sweep(program_path, options, *extra_options):
    command = [program_path, "sweep", options.spec, *extra_options]
    if options.machines:
        command += ["--machines", options.machines]
    try:
        return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              encoding="utf-8", errors="backslashreplace", check=False)
    except OSError as error:  # for instance a program for another architecture
        raise load.BadInput(f"{program_path}: cannot be run: {error.strerror}") from error


def count_cells(program_path, options):
    finished = run_sweep(program_path, options, "--list")
    match = re.search(r"(?m)^(\d+) cells", finished.stdout)
    if finished.returncode != 0 or not match:
        raise load.BadInput(last_message(finished.stderr) or f"{program_path}: does not list the cells of {options.spec}")
    return int(match[1])


def run_cell(program_path, options, record_file, cell_number, cell_count, min_records):
    """Runs the cell with this number, of `cell_count`. Throws BadInput unless the file then has `min_records` records of any outcome."""
    finished = run_sweep(program_path, options, "--out", record_file, "--resume", "--no-preflight", "--shard", f"{cell_number}/{cell_count}")
    if finished.returncode not in (0, 1):
        raise load.BadInput(f"{program_path}: {last_message(finished.stderr) or exit_text(finished.returncode)}")
    if len(records_in(record_file)) < min_records:
        reason = last_message(finished.stderr)
        raise load.BadInput(f"{program_path}: wrote no record of cell {cell_number} to {record_file}" + (f": {reason}" if reason else ""))


def exit_text(exit_code):
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"exited with code {exit_code}, without a word"


def records_in(record_file):
    """The records of a file; [] if it does not exist yet."""
    return load.read(record_file, lambda text: None)[1] if record_file.exists() else []


def failures_in(record_file):
    """{key: error} of the cells in the file that failed."""
    return {record["key"]: f"{record['outcome']}: {record['reason']}" for record in records_in(record_file)
            if record["outcome"] not in ("ok", "infeasible")}


def last_message(stderr_text):
    return stderr_text.strip().splitlines()[-1].removeprefix("umbench: ") if stderr_text.strip() else ""


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
