"""Checks whether `umbench advise` recommends the strategies that were measured fastest.

    python3 python/start.py check_advice results/measured/h200_capped.jsonl results/study/hints_*h200.jsonl

Successful cells of one network, setting and ratio are a group. For each group of two strategies or more, `umbench advise` compares these
strategies, and those that could not run, in the simulator with the group's settings. Its advice is right if the recommended strategy was
measured within 5 % of the fastest. Prints a row for each group. The exit code is 1 if less than 90 % of the groups are right.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from umbench import load

MAX_SLOWDOWN, MIN_RIGHT_SHARE = 1.05, 0.9
PROCESSES = 4  # number of simultaneous processes: each ends with one cell, which leaves processors idle

# `advised` and `fastest`: strategies; `slowdown`: the time of the advised one divided by that of the fastest, None if it has no time.
AdvisedGroup = namedtuple("AdvisedGroup", "file group ratio advised fastest slowdown")


def measured_groups(records):
    """{(group, ratio): {strategy: record}} of measured cells, with the last record of each cell."""
    cells_by_group = {}
    for record in records:
        if not record["simulated"] and record["ratio"] and not record["strategy"].startswith("plan:"):
            cells_by_group.setdefault((load.group_of(record), record["ratio"]), {})[record["strategy"]] = record
    return {group_and_ratio: cell_by_strategy for group_and_ratio, cell_by_strategy in cells_by_group.items()
            if sum(load.steady_ns(cell) is not None for cell in cell_by_strategy.values()) > 1}


def advise_command(umbench_path, backend, cell_by_strategy):
    """The command line of `umbench advise` for these strategies."""
    any_cell = next(iter(cell_by_strategy.values()))
    group = load.group_of(any_cell)
    command = [umbench_path, "advise", "--json", "--backend", backend, "--mode", group.mode, "--network", group.network,
             "--batch", group.batch, "--pass", group.phase, "--fusion", group.fusion, "--precision", group.precision,
             "--memory-order", group.memory_order, "--ratio", any_cell["ratio"], *group.update]
    for name, value in group.knobs:
        command += ["--set", f"{name}={value}"]
    for strategy in cell_by_strategy:
        command += ["--strategy", strategy]
    return tuple(str(word) for word in command)


def run_advise(command):
    """The strategy that advise recommends; None if it finds none that works."""
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode not in (0, 1) or not finished.stdout:
        raise load.BadInput(f"{' '.join(command)}: advise refused: {finished.stderr.strip()}")
    return json.loads(finished.stdout)["named"]


def compare_advice_with_fastest(umbench_path, backend, record_files):
    """[AdvisedGroup], one for each group and ratio of each file."""
    groups_of_files = [(path, group_and_ratio, cell_by_strategy)
                       for path in record_files
                       for group_and_ratio, cell_by_strategy in measured_groups(load.read(path)[1]).items()]
    commands = [advise_command(umbench_path, backend, cell_by_strategy) for _, _, cell_by_strategy in groups_of_files]
    distinct_commands = list(dict.fromkeys(commands))  # several files may have the same groups
    with ThreadPoolExecutor(PROCESSES) as pool:
        strategy_by_command = dict(zip(distinct_commands, pool.map(run_advise, distinct_commands)))
    advised_strategies = [strategy_by_command[command] for command in commands]
    rows = []
    for (path, (group, ratio), cell_by_strategy), advised in zip(groups_of_files, advised_strategies):
        ns_by_strategy = {strategy: load.steady_ns(cell) for strategy, cell in cell_by_strategy.items() if load.steady_ns(cell) is not None}
        fastest = min(ns_by_strategy, key=ns_by_strategy.get)
        slowdown = ns_by_strategy[advised] / ns_by_strategy[fastest] if advised in ns_by_strategy else None
        rows.append(AdvisedGroup(Path(path).name, group, ratio, advised, fastest, slowdown))
    return rows


def is_advice_right(advised_group):
    return advised_group.slowdown is not None and advised_group.slowdown <= MAX_SLOWDOWN


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="measured records")
    parser.add_argument("--backend", default="sim:h200", help="the machine file that stands for their GPU (sim:h200)")
    parser.add_argument("--umbench", default=os.environ.get("UMBENCH_PROGRAM", "umbench"), help="the program (umbench)")
    options = parser.parse_args()
    rows = compare_advice_with_fastest(options.umbench, options.backend, options.files)
    if not rows:
        raise load.TooLittle("no group of measured cells has two strategies that ended well")
    for row in rows:
        file, group, ratio, advised, fastest, slowdown = row
        slowdown_text = "did not run" if slowdown is None else f"{slowdown:.2f}x"
        print(f"{'right' if is_advice_right(row) else 'WRONG'}  {file}: {group.network} b{group.batch} {group.precision} x{ratio:g}: "
              f"{advised} ({slowdown_text}), fastest {fastest}")
    right_count = sum(map(is_advice_right, rows))
    rows_beyond_ratio_1 = [row for row in rows if row.ratio > 1]
    print(f"{right_count} of {len(rows)} groups right ({right_count / len(rows):.0%}); "
          f"beyond ratio 1 {sum(map(is_advice_right, rows_beyond_ratio_1))} of {len(rows_beyond_ratio_1)}")
    return 0 if right_count >= MIN_RIGHT_SHARE * len(rows) else 1


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "check_advice"))
