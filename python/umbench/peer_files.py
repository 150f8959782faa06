"""Reads comparisons with other frameworks (results/peers/*.jsonl): a line for each row; of several lines of one row the last one counts.
docs/method/peers.md names the fields, results/peer.schema.json is their schema."""

import json

from umbench import load, output


def key_of(row):
    return f"{row['network']}/{row['batch']}/{row['precision']}"


def read(path):
    """The rows of a file, in order of first appearance. An incomplete last line, which a crash while appending leaves, is dropped with a
    warning."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise load.BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    rows = {}
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if line_number == len(lines):
                output.warn(f"{path}:{line_number}: the last line is torn and left out")
                continue
            raise load.BadInput(f"{path}:{line_number}: not JSON: {error.msg}") from error
        _check_row(row, f"{path}:{line_number}")
        rows[key_of(row)] = row
    return list(rows.values())


def _check_row(row, location):
    if not isinstance(row, dict) or row.get("kind") != "peer" or row.get("schema") != 1:
        raise load.BadInput(f"{location}: not a comparison with a peer of schema 1")
    for name in ("network", "batch", "precision", "umbench", "modes"):
        if name not in row:
            raise load.BadInput(f"{location}: the row lacks '{name}'")


def fastest_mode(row):
    """The peer's fastest mode, or None."""
    return min((m for m in row["modes"] if "ms" in m), key=lambda m: m["ms"], default=None)


def is_complete(row):
    """Whether both sides were timed, and the gradients compared or left out on request."""
    return row["time_ratio"] is not None and not (row["gradients"] or {}).get("reason")


def times_peaks_and_ratios(row):
    """{name: value} of both sides' times and peaks and their quotients. Those of the peer are of its fastest mode."""
    umbench_side, peer_mode = row["umbench"] or {}, fastest_mode(row)
    least_peak_bytes = min((m["peak_bytes"] for m in row["modes"] if "ms" in m), default=None)
    umbench_ms, umbench_peak_bytes = umbench_side.get("ms"), umbench_side.get("peak_bytes")
    floor_ms = (row.get("floor") or {}).get("floor_ms")

    def ratio_or_none(numerator, denominator):
        return numerator / denominator if numerator is not None and denominator else None

    return {"umbench_ms": umbench_ms, "pytorch_ms": peer_mode and peer_mode["ms"],
            "time_ratio": ratio_or_none(umbench_ms, peer_mode and peer_mode["ms"]),
            "umbench_peak_bytes": umbench_peak_bytes, "pytorch_peak_bytes": peer_mode and peer_mode["peak_bytes"],
            "peak_ratio": ratio_or_none(umbench_peak_bytes, peer_mode and peer_mode["peak_bytes"]),
            "pytorch_mode": peer_mode and f"{peer_mode['way']} {peer_mode['memory_order']}",
            "pytorch_least_peak_bytes": least_peak_bytes, "floor_ratio": ratio_or_none(umbench_ms, floor_ms)}
