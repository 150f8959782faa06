"""Exports a list of models, each in a separate process, and measures time and memory of the exports.

    python3 python/start.py torch.survey FILE.py --out export.jsonl [--only NAME,NAME]

FILE.py has functions for `umbench export` and TABLE: {function: options of the command line}. A line of the result has the seconds of clock
and processor, the peak memory of the process, numbers of operators and tensors, and the predicted peak.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from umbench import arguments, load
from umbench.torch import export, liveness

LIBRARIES = ("torch", "torchvision", "transformers")


def main():
    parser = arguments.Parser(prog="torch.survey", description=__doc__.splitlines()[0])
    parser.add_argument("models", metavar="FILE.py", help="has functions and TABLE")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="a line for each model is appended")
    parser.add_argument("--only", metavar="NAMES", help="functions, by commas")
    options = parser.parse_args()
    table = export.load_module(options.models).TABLE
    names = options.only.split(",") if options.only else list(table)
    for name in names:
        if name not in table:
            raise load.BadInput(f"--only {name}: TABLE of {options.models} has no such function")
    rows = []
    for name in names:
        rows.append(export_model(options.models, name, table[name]))
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(row_text(rows[-1]), flush=True)
    return 0 if all("error" not in row for row in rows) else 1


def export_model(models_file, function_name, export_options):
    """Exports one model in a process; returns its row of the result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "graph.json")
        command = [sys.executable, str(Path(__file__).resolve().parents[2] / "start.py"), "export", f"{models_file}:{function_name}", "-o", str(out), *export_options]
        began = time.monotonic()
        with open(Path(folder, "told"), "w+", encoding="utf-8") as told:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told, env=os.environ | {"UMBENCH_PYTHON": sys.executable})
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0)
            error = told.read().strip()
        row = {"schema": 1, "kind": "torch_export", "network": function_name, "options": list(export_options), "exit_code": process.returncode,
               "seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
               "resident_bytes": used.ru_maxrss * 1024, "cpus": len(os.sched_getaffinity(0)), **installed_versions()}
        if process.returncode:
            return row | {"error": (error.splitlines() or ["no message"])[-1]}
        graph = json.loads(out.read_text(encoding="utf-8"))
    sizes = {}
    for tensor in graph["tensors"]:
        sizes[tensor["use"]] = sizes.get(tensor["use"], 0) + liveness.tensor_bytes(tensor)
    return row | {"operators": len(graph["ops"]), "tensors": len(graph["tensors"]), "parameter_bytes": sizes.get("parameter", 0),
                  "saved_bytes": liveness.saved_bytes(graph), "peak_bytes": liveness.peak_and_operator_of(graph)[0]}


def installed_versions():
    """{library: version} of the LIBRARIES that are installed."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            pass
    return found


def row_text(row):
    head = f"{row['network']:22} {row['seconds']:6.1f} s {row['cpu_seconds']:6.1f} s CPU {row['resident_bytes'] / 2**30:5.2f} GiB"
    if "error" in row:
        return f"{head}  exit code {row['exit_code']}: {row['error']}"
    return f"{head} {row['operators']:6} operators, predicted peak {row['peak_bytes'] / 2**30:6.2f} GiB"


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
