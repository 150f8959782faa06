"""`umbench reproduce [PAPER ...]`: runs the experiments of papers and prints published values beside ours.

Each file of results/papers/ describes one paper: its cells (options of `umbench run`), their machine, the published values with the range in
which ours count as reproduced, and known reasons for differences. Records go to OUT/PAPER.jsonl, the figure beside them.
"""

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

from umbench import dependencies, load, output, places
from umbench.arguments import Parser

PAPERS = places.RESULTS / "papers"


# --- running ---

def umbench_path():
    """The path of the umbench that started this script, else of the built one."""
    path = os.environ.get("UMBENCH_PROGRAM") or str(places.TOP / "build" / "cpu" / "umbench")
    if not os.access(path, os.X_OK):
        raise load.BadInput(f"{path}: no such program; start this by `umbench reproduce`")
    return path


def options_and_backend(paper, cell, backend):
    """(options, backend) of a cell, which may have its own machine. On a GPU the workspaces are limited, so that they do not dominate the
    compared memory."""
    options, machine = (cell["options"], cell["machine"]) if isinstance(cell, dict) else (cell, paper["machine"])
    if backend.startswith("cuda:") and "--workspace-cap" not in options:
        options = [*options, "--workspace-cap", WORKSPACE_CAP]
    return options, backend or f"sim:{machine}"


WORKSPACE_CAP = "256MiB"
SUCCESSFUL_OUTCOMES = ("ok", "infeasible", "unsupported")  # outcomes with which the command succeeds, even if a value differs from the published one


def check_machine(backend, machine_folder):
    """Throws BadInput if `backend` is sim:NAME and neither the built-in machine files nor `machine_folder` has a NAME.json."""
    name = backend.removeprefix("sim:")
    if name == backend:
        return
    folders = [places.RESULTS / "machines", *([Path(machine_folder)] if machine_folder else [])]
    known_names = sorted(path.stem for folder in folders for path in load.files_in(folder, "*.json"))
    if name not in known_names:
        similar_names = difflib.get_close_matches(name, known_names, 1)
        raise load.BadInput(f"--backend {backend}: no machine file has that name; "
                            + (f"did you mean sim:{similar_names[0]}?" if similar_names
                               else f"known: {', '.join(known_names)}; --machines DIR names more"))


def run_cells(paper, backend, machine_folder, iteration_count, out_folder):
    """Runs the cells; returns {cell: record, or the program's error message}. Writes OUT/PAPER.jsonl and a file with the keys of the
    cells."""
    record_file, key_by_cell, result_by_cell = out_folder / f"{paper['name']}.jsonl", {}, {}
    for number, (cell_name, cell) in enumerate(paper["cells"].items(), 1):
        options, cell_backend = options_and_backend(paper, cell, backend)
        is_simulated = cell_backend.startswith("sim:")
        output.print_to_stderr(f"{paper['name']}: {number} of {len(paper['cells'])}: {cell_name}")
        line_count_before = len(lines_or_empty(record_file))
        finished = subprocess.run([umbench_path(), "run", *options, "--backend", cell_backend,
                                   "--iterations", str(iteration_count or (4 if is_simulated else 5)),
                                   *(["--machines", machine_folder] if machine_folder else []),
                                   *([] if is_simulated else ["--times-only"]), "--out", str(record_file)],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if finished.returncode > 128 or finished.returncode < 0:
            sys.exit(finished.returncode if finished.returncode > 0 else 128 - finished.returncode)
        record = json.loads(lines_or_empty(record_file)[-1]) if len(lines_or_empty(record_file)) > line_count_before else None
        if record and record.get("kind") == "record":
            result_by_cell[cell_name], key_by_cell[cell_name] = record, record["key"]
        else:
            message = (finished.stderr.strip().splitlines() or ["it said nothing"])[-1]
            result_by_cell[cell_name] = key_by_cell[cell_name] = "unsupported: " + message.removeprefix("umbench: ").split(" known: ")[0].rstrip("; ")
        (out_folder / f"{paper['name']}.cells.json").write_text(json.dumps(key_by_cell, indent=1) + "\n", encoding="utf-8")
    return result_by_cell


def kept_results(paper, earlier_folder):
    """{cell: record, or the reason why it has none} that an earlier run_cells() wrote to a folder."""
    try:
        key_by_cell = json.loads((earlier_folder / f"{paper['name']}.cells.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise load.BadInput(f"{earlier_folder}: has nothing of {paper['name']}; run it first, with --out") from None
    record_file = earlier_folder / f"{paper['name']}.jsonl"
    record_by_key = {record["key"]: record for record in load.read(record_file)[1]} if record_file.exists() else {}
    return {cell_name: record_by_key.get(key_by_cell.get(cell_name), key_by_cell.get(cell_name, "not run")) for cell_name in paper["cells"]}


def results_to_compare(paper, earlier_folder):
    """kept_results of the folder to compare with; "not run" for each missing cell; None without a folder."""
    if not earlier_folder:
        return None
    return kept_results(paper, Path(earlier_folder)) if (Path(earlier_folder) / f"{paper['name']}.cells.json").exists() else dict.fromkeys(paper["cells"], "not run")


def lines_or_empty(path):
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


# --- values ---

class MissingResult(Exception):
    """A cell has no result; the message has the reason."""


def record_of(results, cell_name):
    """The record of a cell. Throws MissingResult if it did not succeed."""
    result = results[cell_name]
    if isinstance(result, str):
        raise MissingResult(f"{cell_name}: {result}")
    if result["outcome"] != "ok":
        raise MissingResult(f"{cell_name}: {result['outcome']}: {result['reason']}")
    return result


def iteration_ns(record):
    """The time of an iteration after the first: the mean if iterations alternate, since papers give images a second."""
    return (record.get("cycle") or {}).get("mean_ns") or load.steady_ns(record) or record["samples_ns"][0]


def slowdown(record):
    """The time of an iteration divided by the sum of its operators with everything on the device."""
    return iteration_ns(record) / record["compute_ns"]


def arena_over_peak(record):
    """The arena's bytes divided by the peak of the bytes in use."""
    memory = record["memory"]
    return memory["device_arena_bytes"] / (memory["footprint_bytes"] - memory["terms"]["fragmentation_bytes"])


VALUE_FUNCTIONS = {
    "slowdown": slowdown,
    "speed": lambda record: 1 / slowdown(record),
    "per_image_ms": lambda record: iteration_ns(record) / record["batch"] / 1e6,
    "arena_over_peak": arena_over_peak,
    "to_host_gb": lambda record: record["counters"]["last"]["copy_to_host_bytes"] / 1e9,
}
MAX_FREE_SLOWDOWN = 1.005  # a smaller slowdown counts as none
ORDER_TOLERANCE = 0.99  # a cell may be this much faster than the one before it and still count as no faster


def value_of_claim(value_definition, results):
    """The value of a claim. `value_definition` is {kind of value: name of a cell, or names of several}. Throws MissingResult."""
    (kind, cell_names), = value_definition.items()
    if kind in VALUE_FUNCTIONS:
        return VALUE_FUNCTIONS[kind](record_of(results, cell_names))
    if kind == "free_share":
        free_shares = []
        for share, cell_name in sorted(cell_names, reverse=True):
            try:
                if slowdown(record_of(results, cell_name)) > MAX_FREE_SLOWDOWN:
                    break
            except MissingResult:
                break
            free_shares.append(share)
        if not free_shares:
            raise MissingResult("no share is without cost")
        return free_shares[-1]
    first_record, second_record = (record_of(results, cell_name) for cell_name in cell_names)
    time_of = VALUE_FUNCTIONS["per_image_ms"] if kind == "per_image" else iteration_ns
    return time_of(first_record) / time_of(second_record)


# --- verdicts ---

def published_text(claim):
    if "order" in claim:
        return "in this order"
    least, most = claim["least"], claim["most"]
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def judge_claim(claim, results):
    """(our value as text, "within", "off" or "not run", reason) of a claim."""
    reason = claim.get("why", "")
    try:
        if "order" in claim:
            times_ns = [iteration_ns(record_of(results, name)) for name in claim["order"]]
            our_text = " <= ".join(f"{time_ns / 1e6:.4g}" for time_ns in times_ns) + " ms"
            is_inside = all(b >= a * ORDER_TOLERANCE for a, b in zip(times_ns, times_ns[1:]))
        else:
            value = value_of_claim(claim["value"], results)
            our_text = f"{value:.3g}" if abs(value - 1) > 0.1 else f"{value:.4g}"
            is_inside = claim["least"] * 0.9995 <= value <= claim["most"] * 1.0005
    except MissingResult as missing:
        return "none", "not run", f"{missing}; {reason}" if reason else str(missing)
    return our_text, "within" if is_inside else "off", "" if is_inside else reason or "not explained"


def table_text(paper, results, origin_text, other_results=None):
    rows = [("what", "published", "ours", *(["beside"] if other_results else []), "verdict")]
    notes = []
    for claim in paper["claims"]:
        our_text, verdict, reason = judge_claim(claim, results)
        rows.append((claim["name"], published_text(claim), our_text, *([judge_claim(claim, other_results)[0]] if other_results else []), verdict))
        if reason:
            notes.append(f"  {claim['name']}: {reason}")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    heading = (f"{paper['name']}: {paper['title']}, {origin_text}"
               f"{f'; beside: {text_on_origin(other_results)}' if other_results else ''}\n  {paper['source']}\n")
    text = "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[-1] for row in rows)
    return heading + text + ("\n" + "\n".join(notes) if notes else "") + "\n"


def markdown_rows(paper, results, other_results=None):
    """The rows of a Markdown table with the columns paper, claim, published value, our value, that of `other_results` if given, verdict."""
    rows = []
    for claim in paper["claims"]:
        our_text, verdict, _ = judge_claim(claim, results)
        other_texts = [judge_claim(claim, other_results)[0].removesuffix("none")] if other_results is not None else []
        cells = [f"`{paper['name']}`", claim["name"], published_text(claim), our_text, *other_texts, verdict]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


# --- the command ---

def paper_names():
    return sorted(path.stem for path in PAPERS.glob("*.json"))


def parse(argv):
    parser = Parser("umbench reproduce", description="Run what papers measured, print published beside ours, draw both.")
    parser.add_argument("papers", metavar="PAPER", nargs="*", help=", ".join(paper_names()) + " (all)")
    parser.add_argument("--backend", default="", help="cuda:N: with the paper's capacity as budget; sim:NAME: on that machine file (the paper's)")
    parser.add_argument("--machines", metavar="DIR", default="", help="folder with more machine files (the built-in ones alone)")
    parser.add_argument("--out", metavar="DIR", default="reproduced", help="folder for records and figures (reproduced)")
    parser.add_argument("--kept", metavar="DIR", default="", help="run nothing: from what an earlier run left there, as results/papers/simulated (none: everything runs)")
    parser.add_argument("--beside", metavar="DIR", default="", help="a column more: from what another run left there (none)")
    parser.add_argument("--markdown", action="store_true", help="print tables alone, in Markdown")
    parser.add_argument("--iterations", type=int, metavar="N", default=0, help="of every cell, at least 1 (4; on a GPU 5)")
    parser.add_argument("--no-figure", action="store_true", help="print the tables only")
    arguments = parser.parse_args(argv)
    for paper_name in arguments.papers:
        if paper_name not in paper_names():
            raise load.BadInput(f"unknown paper {json.dumps(paper_name)}"
                                f"{output.did_you_mean(paper_name, paper_names())} Known: {', '.join(paper_names())}")
    check_machine(arguments.backend, arguments.machines)
    if arguments.iterations < 0:
        raise load.BadInput("--iterations: wants a whole number from 1 on")
    return arguments


def text_on_origin(results):
    """A text such as 'measured on NVIDIA H200' or 'simulated on h200, 49 of 52 figures measured'."""
    records = [record for record in results.values() if isinstance(record, dict)]
    device_names = sorted({record["device"] for record in records if record["device"]})  # cells that crashed have no device
    devices = " and ".join(device_names) or "nothing"
    if not any(record["simulated"] for record in records):
        return f"measured on {devices}"
    figures_texts = list(dict.fromkeys(load.measured_figures_text(device_name) or "estimated figures" for device_name in device_names))
    return f"simulated on {devices}" + ("" if all(record["calibrated"] for record in records) else f", {' and '.join(figures_texts)}")


def main(argv):
    arguments = parse(argv)
    out_folder = Path(arguments.out)
    wanted_paper_names = arguments.papers or [paper_name for paper_name in paper_names()
                                              if not arguments.kept or (Path(arguments.kept) / f"{paper_name}.cells.json").exists()]
    papers = [json.loads((PAPERS / f"{paper_name}.json").read_text(encoding="utf-8")) for paper_name in wanted_paper_names]
    draws_figures = not (arguments.no_figure or arguments.markdown)
    for paper in papers:
        record_file = out_folder / f"{paper['name']}.jsonl"
        if record_file.exists() and not arguments.kept:
            raise load.BadInput(f"{record_file}: exists; give another folder by --out, or move it away")
    if draws_figures:
        dependencies.require("matplotlib")
    try:
        if draws_figures or not arguments.kept:
            out_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"{out_folder}: {error.strerror}") from error
    if arguments.markdown:
        print("| paper | what | published | ours | beside | verdict |\n|---|---|---|---|---|---|" if arguments.beside
              else "| paper | what | published | ours | verdict |\n|---|---|---|---|---|")
    has_failed = False
    for paper in papers:
        results = (kept_results(paper, Path(arguments.kept)) if arguments.kept
                   else run_cells(paper, arguments.backend, arguments.machines, arguments.iterations, out_folder))
        origin_text = text_on_origin(results)
        other_results = results_to_compare(paper, arguments.beside)
        print(markdown_rows(paper, results, other_results) if arguments.markdown
              else table_text(paper, results, origin_text, other_results), flush=True)
        if draws_figures and any(isinstance(each, dict) and load.steady_ns(each) for each in results.values()):
            from umbench.plots import reproduced  # noqa: PLC0415: needs matplotlib, tables do not

            reproduced.draw_paper(paper, results, origin_text, out_folder)
        elif draws_figures:
            output.print_to_stderr(f"umbench: {paper['name']}: no cell ran, so there is no figure")
        has_failed |= any(isinstance(r, dict) and r["outcome"] not in SUCCESSFUL_OUTCOMES for r in results.values())
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(load.report_errors(lambda: main(sys.argv[1:]), "umbench"))
