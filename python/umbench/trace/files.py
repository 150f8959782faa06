"""Traces from files: those of umbench trace, and SQLite exports of Nsight Systems."""

import json

from umbench.trace import nsys, reader


def read_trace(path):
    """[TracedProcess] of a file of either kind. Throws BadInput."""
    return nsys.read_export(path) if nsys.is_sqlite(path) else reader.read_trace_file(path)


def is_trace(path):
    """Whether a file is an SQLite database, or its first line that of a trace."""
    if nsys.is_sqlite(path):
        return True
    try:
        with open(path, "rb") as file:
            entry = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):  # the line is not JSON, or nested too deeply
        return False
    return isinstance(entry, dict) and entry.get("tool") == "umbench trace"
