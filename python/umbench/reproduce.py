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
    found = os.environ.get("UMBENCH_PROGRAM") or str(places.TOP / "build" / "cpu" / "umbench")
    if not os.access(found, os.X_OK):
        raise load.BadInput(f"{found}: no such program; start this by `umbench reproduce`")
    return found


def options_and_backend(paper, cell, backend):
    """(options, backend) of a cell, which may have its own machine. On a GPU the workspaces are limited, so that they do not dominate the
    compared memory."""
    options, machine = (cell["options"], cell["machine"]) if isinstance(cell, dict) else (cell, paper["machine"])
    if backend.startswith("cuda:") and "--workspace-cap" not in options:
        options = [*options, "--workspace-cap", WORKSPACE_CAP]
    return options, backend or f"sim:{machine}"


WORKSPACE_CAP = "256MiB"
NO_FAILURE = ("ok", "infeasible", "unsupported")  # outcomes with which the command succeeds, even if a value differs from the published one


def check_machine(backend, machine_folder):
    """Throws BadInput if `backend` is sim:NAME and neither the built-in machine files nor `machine_folder` has a NAME.json."""
    name = backend.removeprefix("sim:")
    if name == backend:
        return
    folders = [places.RESULTS / "machines", *([Path(machine_folder)] if machine_folder else [])]
    known = sorted(path.stem for folder in folders for path in load.files_in(folder, "*.json"))
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise load.BadInput(f"--backend {backend}: no machine file has that name; "
                            + (f"did you mean sim:{near[0]}?" if near else f"known: {', '.join(known)}; --machines DIR names more"))


def run_cells(paper, backend, machine_folder, iteration_count, out_folder):
    """Runs the cells; returns {cell: record, or the program's error message}. Writes OUT/PAPER.jsonl and a file with the keys of the
    cells."""
    path, keys, results = out_folder / f"{paper['name']}.jsonl", {}, {}
    for number, (name, cell) in enumerate(paper["cells"].items(), 1):
        options, where = options_and_backend(paper, cell, backend)
        simulated = where.startswith("sim:")
        output.print_to_stderr(f"{paper['name']}: {number} of {len(paper['cells'])}: {name}")
        before = len(lines_or_empty(path))
        done = subprocess.run([umbench_path(), "run", *options, "--backend", where, "--iterations", str(iteration_count or (4 if simulated else 5)),
                               *(["--machines", machine_folder] if machine_folder else []), *([] if simulated else ["--times-only"]), "--out", str(path)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode > 128 or done.returncode < 0:
            sys.exit(done.returncode if done.returncode > 0 else 128 - done.returncode)
        record = json.loads(lines_or_empty(path)[-1]) if len(lines_or_empty(path)) > before else None
        if record and record.get("kind") == "record":
            results[name], keys[name] = record, record["key"]
        else:
            message = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            results[name] = keys[name] = "unsupported: " + message.removeprefix("umbench: ").split(" known: ")[0].rstrip("; ")
        (out_folder / f"{paper['name']}.cells.json").write_text(json.dumps(keys, indent=1) + "\n", encoding="utf-8")
    return results


def kept_results(paper, earlier_folder):
    """{cell: record, or the reason why it has none} that an earlier run_cells() wrote to a folder."""
    try:
        keys = json.loads((earlier_folder / f"{paper['name']}.cells.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise load.BadInput(f"{earlier_folder}: has nothing of {paper['name']}; run it first, with --out") from None
    path = earlier_folder / f"{paper['name']}.jsonl"
    records = {record["key"]: record for record in load.read(path)[1]} if path.exists() else {}
    return {name: records.get(keys.get(name), keys.get(name, "not run")) for name in paper["cells"]}


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
    found = results[cell_name]
    if isinstance(found, str):
        raise MissingResult(f"{cell_name}: {found}")
    if found["outcome"] != "ok":
        raise MissingResult(f"{cell_name}: {found['outcome']}: {found['reason']}")
    return found


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


VALUES = {
    "slowdown": slowdown,
    "speed": lambda record: 1 / slowdown(record),
    "per_image_ms": lambda record: iteration_ns(record) / record["batch"] / 1e6,
    "arena_over_peak": arena_over_peak,
    "to_host_gb": lambda record: record["counters"]["last"]["copy_to_host_bytes"] / 1e9,
}
NO_SLOWDOWN = 1.005  # a smaller slowdown counts as none
ORDER_TOLERANCE = 0.99  # a cell may be this much faster than the one before it and still count as no faster


def value_of_claim(value_definition, results):
    """The value of a claim. `value_definition` is {kind of value: name of a cell, or names of several}. Throws MissingResult."""
    (kind, cells), = value_definition.items()
    if kind in VALUES:
        return VALUES[kind](record_of(results, cells))
    if kind == "free_share":
        free = []
        for share, name in sorted(cells, reverse=True):
            try:
                if slowdown(record_of(results, name)) > NO_SLOWDOWN:
                    break
            except MissingResult:
                break
            free.append(share)
        if not free:
            raise MissingResult("no share is without cost")
        return free[-1]
    first, second = (record_of(results, name) for name in cells)
    time_by = VALUES["per_image_ms"] if kind == "per_image" else iteration_ns
    return time_by(first) / time_by(second)


# --- verdicts ---

def published_text(claim):
    if "order" in claim:
        return "in this order"
    least, most = claim["least"], claim["most"]
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def judge_claim(claim, results):
    """(our value as text, "within", "off" or "not run", reason) of a claim."""
    why = claim.get("why", "")
    try:
        if "order" in claim:
            times = [iteration_ns(record_of(results, name)) for name in claim["order"]]
            ours = " <= ".join(f"{time / 1e6:.4g}" for time in times) + " ms"
            inside = all(b >= a * ORDER_TOLERANCE for a, b in zip(times, times[1:]))
        else:
            value = value_of_claim(claim["value"], results)
            ours = f"{value:.3g}" if abs(value - 1) > 0.1 else f"{value:.4g}"
            inside = claim["least"] * 0.9995 <= value <= claim["most"] * 1.0005
    except MissingResult as missing:
        return "none", "not run", f"{missing}; {why}" if why else str(missing)
    return ours, "within" if inside else "off", "" if inside else why or "not explained"


def table_text(paper, results, origin_text, other_results=None):
    rows = [("what", "published", "ours", *(["beside"] if other_results else []), "verdict")]
    notes = []
    for claim in paper["claims"]:
        ours, verdict, why = judge_claim(claim, results)
        rows.append((claim["name"], published_text(claim), ours, *([judge_claim(claim, other_results)[0]] if other_results else []), verdict))
        if why:
            notes.append(f"  {claim['name']}: {why}")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    head = f"{paper['name']}: {paper['title']}, {origin_text}{f'; beside: {device_text(other_results)}' if other_results else ''}\n  {paper['source']}\n"
    text = "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[-1] for row in rows)
    return head + text + ("\n" + "\n".join(notes) if notes else "") + "\n"


def markdown_rows(paper, results, other_results=None):
    """The rows of a Markdown table with the columns paper, claim, published value, our value, that of `other_results` if given, verdict."""
    rows = []
    for claim in paper["claims"]:
        ours, verdict, _ = judge_claim(claim, results)
        others = [judge_claim(claim, other_results)[0].removesuffix("none")] if other_results is not None else []
        cells = [f"`{paper['name']}`", claim["name"], published_text(claim), ours, *others, verdict]
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
    for name in arguments.papers:
        if name not in paper_names():
            raise load.BadInput(f"unknown paper {json.dumps(name)}{output.did_you_mean(name, paper_names())} Known: {', '.join(paper_names())}")
    check_machine(arguments.backend, arguments.machines)
    if arguments.iterations < 0:
        raise load.BadInput("--iterations: wants a whole number from 1 on")
    return arguments


def device_text(results):
    """A text such as 'measured on NVIDIA H200' or 'simulated on h200, 49 of 52 figures measured'."""
    records = [record for record in results.values() if isinstance(record, dict)]
    names = sorted({record["device"] for record in records if record["device"]})  # cells that crashed have no device
    devices = " and ".join(names) or "nothing"
    if not any(record["simulated"] for record in records):
        return f"measured on {devices}"
    told = list(dict.fromkeys(load.measured_figures_text(name) or "estimated figures" for name in names))
    return f"simulated on {devices}" + ("" if all(record["calibrated"] for record in records) else f", {' and '.join(told)}")


def main(argv):
    arguments = parse(argv)
    folder = Path(arguments.out)
    names = arguments.papers or [name for name in paper_names()
                                 if not arguments.kept or (Path(arguments.kept) / f"{name}.cells.json").exists()]
    papers = [json.loads((PAPERS / f"{name}.json").read_text(encoding="utf-8")) for name in names]
    figures = not (arguments.no_figure or arguments.markdown)
    for paper in papers:
        path = folder / f"{paper['name']}.jsonl"
        if path.exists() and not arguments.kept:
            raise load.BadInput(f"{path}: exists; give another folder by --out, or move it away")
    if figures:
        dependencies.require("matplotlib")
    try:
        if figures or not arguments.kept:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"{folder}: {error.strerror}") from error
    if arguments.markdown:
        print("| paper | what | published | ours | beside | verdict |\n|---|---|---|---|---|---|" if arguments.beside
              else "| paper | what | published | ours | verdict |\n|---|---|---|---|---|")
    failed = False
    for paper in papers:
        results = kept_results(paper, Path(arguments.kept)) if arguments.kept else run_cells(paper, arguments.backend, arguments.machines, arguments.iterations, folder)
        where = device_text(results)
        beside = results_to_compare(paper, arguments.beside)
        print(markdown_rows(paper, results, beside) if arguments.markdown else table_text(paper, results, where, beside), flush=True)
        if figures and any(isinstance(each, dict) and load.steady_ns(each) for each in results.values()):
            from umbench.plots import reproduced  # noqa: PLC0415: needs matplotlib, tables do not

            reproduced.draw_paper(paper, results, where, folder)
        elif figures:
            output.print_to_stderr(f"umbench: {paper['name']}: no cell ran, so there is no figure")
        failed |= any(isinstance(r, dict) and r["outcome"] not in NO_FAILURE for r in results.values())
    return int(failed)


if __name__ == "__main__":
    sys.exit(load.report_errors(lambda: main(sys.argv[1:]), "umbench"))
