"""A comparison as text, Markdown or JSON."""

import json
import sys

from results import load
from results.judge import VERDICTS

SIGNS = {"regressed": "❌", "insufficient": "❔", "ambiguous": "⚠️", "improved": "🚀", "ok": "✅"}


def write(found, wanted):
    write_text({"text": as_text, "markdown": as_markdown, "json": as_json}[wanted.format](found, wanted.all), wanted.out)


def write_text(text, out):
    if not out:
        sys.stdout.write(text)
        return
    try:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise load.BadInput(f"--out {out}: {error.strerror}") from error


def counts(found):
    tally = {verdict: 0 for verdict in VERDICTS}
    for row in found.rows:
        tally[row.finding.verdict] += 1
    return tally


def headline(found):
    tally = counts(found)
    words = ", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS if tally[verdict])
    kinds = {row.simulated for row in found.rows}
    kind = "measured" if kinds == {False} else "simulated" if kinds == {True} else "measured and simulated"
    return f"{load.counted(len(found.rows), f'{kind} cell')}: {words}"


def notes(found):
    lines = [f"places differ, compared all the same: {difference}" for difference in found.unlike]
    lines += [*found.noted, *found.disturbed]
    for provenance in sorted({row.provenance for row in found.rows if row.simulated}):
        alike = [row for row in found.rows if row.provenance == provenance]
        lines.append(f"{load.counted(len(alike), 'cell')} {provenance}")
    if found.new:
        lines.append(f"only HEAD has {load.counted(len(found.new), 'cell')}, not judged, such as {found.new[0]}")
    if any(not row.simulated for row in found.rows):
        limits = found.limits
        lines.append(f"measured cells: limit {100 * limits.relative:g} % and {time_text(limits.absolute_ns)}, raised to what "
                     f"runs of one code showed; Mann-Whitney U, alpha {limits.alpha:g} over all cells "
                     f"({limits.correction}); intervals {limits.confidence:.0%} bootstrap")
    return lines


def shown(found, everything):
    """Worst first; what is ok only if asked for."""
    rows = sorted(found.rows, key=lambda row: VERDICTS.index(row.finding.verdict))
    return [row for row in rows if everything or row.finding.verdict != "ok"]


def cell_texts(finding):
    change = "" if finding.change is None else f"{finding.change:+.2%}"
    interval = "" if finding.low is None else f"{finding.low:+.1%} to {finding.high:+.1%}"
    p = "" if finding.p_adjusted is None else f"{finding.p_adjusted:.2g}"
    return [time_text(finding.base_ns), time_text(finding.head_ns), change, interval, p, finding.reason or ""]


def time_text(ns):
    if ns is None:
        return ""
    size, unit = (1e9, "s") if ns >= 1e9 else (1e6, "ms") if ns >= 1e5 else (1e3, "us")
    return f"{ns / size:.4g} {unit}"


HEAD = ["verdict", "base", "head", "change", "interval", "p", "why", "cell"]


def as_text(found, everything):
    rows = [[row.finding.verdict, *cell_texts(row.finding), row.key] for row in shown(found, everything)]
    lines = [headline(found)]
    if rows:
        widths = [max(len(row[column]) for row in [HEAD, *rows]) for column in range(len(HEAD))]
        lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in [HEAD, *rows]]
    return "\n".join(lines + notes(found)) + "\n"


def as_markdown(found, everything):
    lines = [f"### umbench: {headline(found)}", ""]
    rows = shown(found, everything)
    if rows:
        lines += ["| " + " | ".join(["", *HEAD]) + " |", "|" + " --- |" * (len(HEAD) + 1)]
        for row in rows:
            texts = [SIGNS[row.finding.verdict], row.finding.verdict, *cell_texts(row.finding), f"`{row.key}`"]
            lines.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
        lines.append("")
    lines += [f"- {note}" for note in [f"base `{found.base}`, head `{found.head}`", *notes(found)]]
    return "\n".join(lines) + "\n"


def as_json(found, _):
    cells = [{"key": row.key, "simulated": row.simulated, **row.finding._asdict()} for row in found.rows]
    for cell in cells:
        samples = cell.pop("samples") or (None, None)
        cell["base_samples"], cell["head_samples"] = samples
    document = {"kind": "comparison", "schema": 1, "base": found.base, "head": found.head,
                "limits": found.limits._asdict(), "counts": counts(found), "unlike": found.unlike,
                "noted": found.noted, "disturbed": found.disturbed,
                "only_in_head": found.new, "exit_code": found.exit_code, "cells": cells}
    return json.dumps(document, indent=1) + "\n"
