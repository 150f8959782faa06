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
    options_of_function = export.load_module(options.models).TABLE
    function_names = options.only.split(",") if options.only else list(options_of_function)
    for function_name in function_names:
        if function_name not in options_of_function:
            raise load.BadInput(f"--only {function_name}: TABLE of {options.models} has no such function")
    result_rows = []
    for function_name in function_names:
        result_rows.append(export_model(options.models, function_name, options_of_function[function_name]))
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(result_rows[-1]) + "\n")
        print(row_text(result_rows[-1]), flush=True)
    return 0 if all("error" not in row for row in result_rows) else 1


def export_model(models_file, function_name, export_options):
    """Exports one model in a process; returns its row of the result."""
    with tempfile.TemporaryDirectory() as folder:
        graph_file = Path(folder, "graph.json")
        command = [sys.executable, str(Path(__file__).resolve().parents[2] / "start.py"),
                   "export", f"{models_file}:{function_name}", "-o", str(graph_file), *export_options]
        begin_s = time.monotonic()
        with open(Path(folder, "told"), "w+", encoding="utf-8") as error_file:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=error_file, env=os.environ | {"UMBENCH_PYTHON": sys.executable})
            _, status, resource_usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            error_file.seek(0)
            error_text = error_file.read().strip()
        result_row = {"schema": 1, "kind": "torch_export", "network": function_name, "options": list(export_options), "exit_code": process.returncode,
                      "seconds": round(time.monotonic() - begin_s, 1), "cpu_seconds": round(resource_usage.ru_utime + resource_usage.ru_stime, 1),
                      "resident_bytes": resource_usage.ru_maxrss * 1024, "cpus": len(os.sched_getaffinity(0)), **installed_versions()}
        if process.returncode:
            return result_row | {"error": (error_text.splitlines() or ["no message"])[-1]}
        graph = json.loads(graph_file.read_text(encoding="utf-8"))
    bytes_by_use = {}
    for tensor in graph["tensors"]:
        bytes_by_use[tensor["use"]] = bytes_by_use.get(tensor["use"], 0) + liveness.tensor_bytes(tensor)
    return result_row | {"operators": len(graph["ops"]), "tensors": len(graph["tensors"]), "parameter_bytes": bytes_by_use.get("parameter", 0),
                         "saved_bytes": liveness.saved_bytes(graph), "peak_bytes": liveness.peak_and_operator_of(graph)[0]}


def installed_versions():
    """{library: version} of the LIBRARIES that are installed."""
    version_of_library = {}
    for library in LIBRARIES:
        try:
            version_of_library[library] = version(library)
        except PackageNotFoundError:
            pass
    return version_of_library


def row_text(row):
    row_head = f"{row['network']:22} {row['seconds']:6.1f} s {row['cpu_seconds']:6.1f} s CPU {row['resident_bytes'] / 2**30:5.2f} GiB"
    if "error" in row:
        return f"{row_head}  exit code {row['exit_code']}: {row['error']}"
    return f"{row_head} {row['operators']:6} operators, predicted peak {row['peak_bytes'] / 2**30:6.2f} GiB"


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
