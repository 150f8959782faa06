"""Runs the cells of claims that were not reproduced again, each time with one change: `python3 python/start.py variations`.

results/validation/variations.json has a row for each such claim of results/papers. Each entry of `tried` names one change: of figures of
the machine file, of its operators, of options of the claim's cells (of `cells` alone if they are named), or of the number of iterations.
`ours` is the result.
"""

import json
import sys
import tempfile
from pathlib import Path

from umbench import load, output, places, reproduce
from umbench.arguments import Parser

VARIATIONS_FILE = places.RESULTS / "validation" / "variations.json"
VARIATION_KINDS = {"figures", "operators", "options", "iterations"}  # a variation has exactly one of these


def cell_names_of(claim):
    """The names of the cells that a claim compares."""
    if "order" in claim:
        return claim["order"]
    (kind, cell_names), = claim["value"].items()
    return [name for _, name in cell_names] if kind == "free_share" else [cell_names] if isinstance(cell_names, str) else cell_names


def read_machine_file(machine_name):
    return json.loads((places.RESULTS / "machines" / f"{machine_name}.json").read_text(encoding="utf-8"))


def changed_machine(machine, variation):
    """A copy of a machine file's document with the figures, or the rates of operators, of a variation."""
    changed = dict(machine, uvm=dict(machine["uvm"]), source=f"{machine['name']} with one change: {variation['change']}", calibrated=False)
    for name, value in variation.get("figures", {}).items():
        section, _, field = name.rpartition(".")
        (changed[section] if section else changed)[field] = value
    if isinstance(variation.get("operators"), str):  # the name of the machine file whose rates are used
        changed["operators"] = read_machine_file(variation["operators"])["operators"]
    elif "operators" in variation:  # {kind: factor by which its rate is multiplied}
        factor_by_kind = variation["operators"]
        changed["operators"] = [dict(operator, percent=max(1, round(operator["percent"] * factor_by_kind[operator["kind"].split("_")[0]])))
                                if operator["kind"].split("_")[0] in factor_by_kind else operator
                                for operator in machine.get("operators", [])]
    return changed


def changed_options(options, changes):
    """A copy of the options of `umbench run` with the changes replaced or added; null removes an option."""
    new_options = []
    for name, value in zip(options[::2], options[1::2]):
        if name not in changes or name in ("--set", "--knob"):
            new_options += [name, value]
    for name, value in changes.items():
        for each_value in [] if value is None else value if isinstance(value, list) else [value]:
            new_options += [name, str(each_value)]
    return new_options


def run_variation(paper, claim, variation, folder):
    """Runs the cells of a claim with one change; returns the value of the claim. Throws reproduce.MissingResult."""
    cells = {}
    for cell_name in cell_names_of(claim):
        options, backend = reproduce.options_and_backend(paper, paper["cells"][cell_name], "")
        machine = backend.removeprefix("sim:")
        changes = variation.get("options", {}) if cell_name in variation.get("cells", [cell_name]) else {}
        cells[cell_name] = {"machine": machine, "options": changed_options(options, changes)}
        (folder / "machines").mkdir(exist_ok=True)
        (folder / "machines" / f"{machine}.json").write_text(json.dumps(changed_machine(read_machine_file(machine), variation)), encoding="utf-8")
    results = reproduce.run_cells({"name": paper["name"], "cells": cells}, "", str(folder / "machines"), variation.get("iterations", 0), folder)
    return reproduce.value_of_claim(claim["value"], results)


def value_or_reason(paper, claim, variation):
    """The value of run_variation() with four digits, or a text with the reason why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return float(f"{run_variation(paper, claim, variation, Path(folder)):.4g}")
        except reproduce.MissingResult as missing:
            return f"none: {missing}"


def row_text(claim, row):
    lines = [f"{row['paper']}: {row['claim']}: published {reproduce.published_text(claim)}, ours {row['ours']}"]
    for variation in row["tried"]:
        is_inside = isinstance(variation["ours"], (int, float)) and claim["least"] <= variation["ours"] <= claim["most"]
        lines.append(f"  {str(variation['ours']):>8} {'within' if is_inside else 'off':6}  {variation['change']}")
    return "\n".join([*lines, f"  {claim.get('why', 'not explained')}"])


def main(argv):
    parser = Parser("start.py variations", description="Run published claims that are off with one thing changed.")
    parser.add_argument("papers", metavar="PAPER", nargs="*", help="papers to run (all)")
    parser.add_argument("--kept", action="store_true", help="run nothing: print what the file has")
    parser.add_argument("--write", action="store_true", help="write what comes out into the file")
    arguments = parser.parse_args(argv)
    document = json.loads(VARIATIONS_FILE.read_text(encoding="utf-8"))
    differs = False
    for row in document["rows"]:
        if arguments.papers and row["paper"] not in arguments.papers:
            continue
        paper = json.loads((reproduce.PAPERS / f"{row['paper']}.json").read_text(encoding="utf-8"))
        claim = next(each for each in paper["claims"] if each["name"] == row["claim"])
        for variation in [] if arguments.kept else [row, *row["tried"]]:
            ours = value_or_reason(paper, claim, {"change": "none"} if variation is row else variation)
            differs |= variation.get("ours") != ours
            variation["ours"] = ours
        print(row_text(claim, row) + "\n", flush=True)
    if arguments.write:
        VARIATIONS_FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    elif differs:
        output.print_to_stderr("some results differ from those kept; --write keeps these")
    return int(differs and not arguments.write)


if __name__ == "__main__":
    sys.exit(load.report_errors(lambda: main(sys.argv[1:]), "umbench"))
