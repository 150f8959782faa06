"""Runs a program and records what Unified Memory did in it.

The CUDA driver loads libumbench_trace.so into the program and its child processes. The program's output, exit code and signals stay
its own. docs/trace.md describes the file.
"""

import argparse
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from umbench import arguments, load, output
from umbench.trace import symbols

LIBRARY = "libumbench_trace.so"
FORWARDED_SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
CANNOT_RUN, NOT_FOUND = 126, 127  # exit codes as those of shells


def main():
    options = _parse_arguments(sys.argv[1:])
    trace_file = Path(options.out)
    if not trace_file.parent.is_dir():
        raise load.BadInput(f"trace: --out {trace_file}: there is no folder {trace_file.parent}; make it first")
    for process_file in _process_files(trace_file):
        os.remove(process_file)
    trace_file.unlink(missing_ok=True)
    library_file = library_path()
    exit_status = _run(options.program, _environment_variables(trace_file, library_file) | ({"UMBENCH_TRACE_SHARE": "1"} if options.whole else {}))
    _join_files(trace_file, options.program, library_file)
    symbols.add_function_names(trace_file)
    if options.twice and exit_status == 0:
        _time_again(trace_file, options.program, library_file)
    return exit_status


def _parse_arguments(argv):
    parser = arguments.Parser(prog="umbench trace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="trace.jsonl", metavar="RUN.jsonl", help="file to write (trace.jsonl)")
    parser.add_argument("--twice", action="store_true", help="run it a second time, silently, to time its kernels while nothing is counted: "
                        "counting slows faults, and umbench explain then goes by these times")
    parser.add_argument("--whole", action="store_true", help="count all the time, however much that slows a program that faults a lot; "
                        "otherwise counting pauses when it has taken a second and 3%% of the time")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGUMENTS")
    options = parser.parse_args(argv)
    if options.program[:1] == ["--"]:
        options.program = options.program[1:]
    if not options.program:
        parser.error("names no program: umbench trace [OPTIONS] -- PROGRAM ARGUMENTS")
    return options


def library_path():
    """The path of the library, beside the program umbench or in the library folders of an install tree; None if it was not built."""
    path_from_environment = os.environ.get("UMBENCH_TRACE_LIBRARY")
    if path_from_environment:
        return path_from_environment
    program_folder = Path(os.environ.get("UMBENCH_PROGRAM", sys.argv[0])).resolve().parent
    for folder in (program_folder, program_folder.parent / "lib", program_folder.parent / "lib64",
                   *(program_folder.parent / "lib").glob("*-linux-gnu")):
        if (folder / LIBRARY).is_file():
            return str(folder / LIBRARY)
    return None


def _environment_variables(trace_file, library_file):
    """The environment variables of the traced program. `library_file` is None if there is no library."""
    environment = dict(os.environ, UMBENCH_TRACE_OUT=str(trace_file.resolve()))
    if library_file:
        environment["CUDA_INJECTION64_PATH"] = library_file
        environment.setdefault("NVTX_INJECTION64_PATH", environment.get("UMBENCH_CUPTI", "libcupti.so"))
    return environment


def _run(command, environment, **streams):
    """Runs the program; returns its exit code, or the _Signal that ended it."""
    earlier_handlers = {signal_name: signal.signal(getattr(signal, signal_name), signal.SIG_IGN) for signal_name in ("SIGINT", "SIGQUIT")}

    def restore_handlers_in_child():
        for signal_name, handler in earlier_handlers.items():
            signal.signal(getattr(signal, signal_name), handler)

    try:
        child = subprocess.Popen(command, env=environment, preexec_fn=restore_handlers_in_child, **streams)
    except FileNotFoundError:
        output.print_to_stderr(f"umbench: trace: there is no program {command[0]}")
        return NOT_FOUND
    except OSError as error:
        output.print_to_stderr(f"umbench: trace: cannot run {command[0]}: {error.strerror}")
        return CANNOT_RUN
    for signal_name in FORWARDED_SIGNALS:
        signal.signal(getattr(signal, signal_name), lambda signal_number, _: child.send_signal(signal_number))
    exit_code = child.wait()
    return exit_code if exit_code >= 0 else _Signal(-exit_code)


class _Signal(int):
    """The number of the signal that ended the program."""


def _time_again(trace_file, command, library_file):
    """Runs the program a second time without counting. Appends its times to the trace, with "role": "times" in the environment of each
    process."""
    times_file = Path(f"{trace_file}.times")
    devnull = subprocess.DEVNULL
    if _run(command, _environment_variables(times_file, library_file) | {"UMBENCH_TRACE_TIMES": "1"},
            stdin=devnull, stdout=devnull, stderr=devnull) != 0:
        output.print_to_stderr("umbench: trace: the second run failed; the trace has the first one's times")
    with open(trace_file, "a", encoding="utf-8") as trace:
        for process_file in sorted(_process_files(times_file), key=_process_start_ns):
            with open(process_file, encoding="utf-8", errors="replace") as lines:
                environment = json.loads(lines.readline() or "{}")
                trace.write(json.dumps(environment | {"role": "times"}) + "\n")
                trace.writelines(line for line in lines if line.endswith("\n"))
            os.remove(process_file)


def _process_start_ns(path):
    """The start time of the process of a file, by which files are sorted; 0 if unknown."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        try:
            return json.loads(lines.readline()).get("start_ns", 0)
        except ValueError:
            return 0


def _process_files(trace_file):
    """The paths of the files of single processes, which become `trace_file`."""
    return sorted(glob.glob(glob.escape(str(trace_file)) + ".[0-9]*"))


def _join_files(trace_file, command, library_file):
    """Joins the files of all processes to `trace_file`, in the order in which the processes began."""
    process_files = _process_files(trace_file)
    if not process_files:
        process_files = [_write_empty_trace(trace_file, command, library_file)]
    process_files.sort(key=_process_start_ns)
    os.replace(process_files[0], trace_file)
    with open(trace_file, "ab") as trace:
        for process_file in process_files[1:]:
            with open(process_file, "rb") as file:
                data = file.read()
            trace.write(data if data.endswith(b"\n") else data + b"\n")
            os.remove(process_file)


def _write_empty_trace(trace_file, command, library_file):
    """Writes a file for a program none of whose processes wrote a file; returns its path."""
    lacking_text = (f"everything: no process of it started CUDA, or its driver did not load {LIBRARY}" if library_file else
                    f"everything: there is no {LIBRARY} beside umbench; build it with -DUM_CUDA=ON, or let UMBENCH_TRACE_LIBRARY name it")
    path = f"{trace_file}.0"
    now_ns = time.time_ns()
    with open(path, "w", encoding="utf-8") as file:
        for line in ({"kind": "environment", "schema": 1, "tool": "umbench trace", "process": 0, "parent": os.getpid(),
                      "program": command, "start_ns": now_ns, "wall_clock_ns": now_ns, "kernel_release": os.uname().release,
                      "driver": ""}, {"kind": "lacking", "what": lacking_text}):
            file.write(json.dumps(line) + "\n")
    output.print_to_stderr(f"umbench: trace: {trace_file} lacks {lacking_text}")
    return path


def _end_like_program(status):
    """Ends this process as the program ended: with its exit code, or by its signal."""
    if isinstance(status, _Signal):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if status != signal.SIGKILL:
            signal.signal(int(status), signal.SIG_DFL)
        os.kill(os.getpid(), int(status))
    sys.exit(int(status))


if __name__ == "__main__":
    result = []
    exit_code = load.report_errors(lambda: result.append(main()), "umbench")
    _end_like_program(result[0] if result else exit_code)
