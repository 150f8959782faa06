"""Prints a comparison as text, Markdown or JSON."""

import json
import math

from umbench import load, output
from umbench.comparison import EXIT_REGRESSED, VERDICTS

SIGNS = {"regressed": "❌", "insufficient": "❔", "unlike": "❔", "tolerated": "🟡", "ambiguous": "⚠️", "improved": "🚀", "ok": "✅"}
MAX_ROWS = 50  # maximum number of rows in Markdown, so that a page shows them completely


def write(comparison, options):
    text_function = {"text": as_text, "markdown": as_markdown, "json": as_json}[options.format]
    output.write(text_function(comparison, options.all), options.out)


def counts_by_verdict(comparison):
    counts = {verdict: 0 for verdict in VERDICTS}
    for row in comparison.rows:
        counts[row.verdict] += 1
    return counts


def overall_verdict(comparison):
    """The verdict on all cells: "regressed", "too little data", "unlike" if only changed machine files prevent cells from being judged, or "ok"."""
    if comparison.exit_code == load.EXIT_TOO_LITTLE and counts_by_verdict(comparison)["unlike"] and not counts_by_verdict(comparison)["insufficient"]:
        return "unlike"
    return {EXIT_REGRESSED: "regressed", load.EXIT_TOO_LITTLE: "too little data"}.get(comparison.exit_code, "ok")


def changed_files_text(comparison):
    """A text on the machine files that changed and the effect on their cells; empty if none changed."""
    if not comparison.machines:
        return ""
    machine_names = " and ".join(comparison.machines)
    text = f"machine {'file' if len(comparison.machines) == 1 else 'files'} {machine_names} changed (figures_digest)"
    cells_text = load.count_text(sum(comparison.machines.values()), "cell")
    if counts_by_verdict(comparison)["unlike"]:
        return f"{text}, {cells_text} not judged (--allow-unlike judges them); "
    return f"{text}, which may explain {cells_text}; "


def headline(comparison):
    counts = counts_by_verdict(comparison)
    counts_text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    simulated_flags = {row.simulated for row in comparison.rows}
    by_mean_text = " by the mean of all cells" if comparison.exit_code == EXIT_REGRESSED and not counts["regressed"] else ""
    kind = "measured" if simulated_flags == {False} else "simulated" if simulated_flags == {True} else "measured and simulated"
    return (f"{changed_files_text(comparison)}{overall_verdict(comparison)}{by_mean_text}: "
            f"{load.count_text(len(comparison.rows), f'{kind} cell')}, {counts_text}")


def mean_text(comparison):
    """A text on the geometric mean; None if fewer than two cells have a change."""
    mean = comparison.mean
    if mean is None:
        return None
    verdict = mean.verdict if mean.verdict != "regressed" or "mean" in comparison.fail_on else "tolerated"
    return (f"geometric mean of {mean.cells} measured cells: {mean.change:+.2%} ({mean.low:+.2%} to {mean.high:+.2%}), limit "
            f"{100 * mean.limit:.3g} %: {verdict}")


def note_lines(comparison):
    lines = [f"places differ, compared all the same: {difference}" for difference in comparison.unlike]
    lines += [*comparison.noted, *comparison.disturbance_notes]
    lines += [f"{key}: {text}" for key, _, text in comparison.at_two_speeds[:5]]
    if len(comparison.at_two_speeds) > 5:
        lines.append(f"and {len(comparison.at_two_speeds) - 5} more of two speeds")
    for provenance in sorted({row.provenance for row in comparison.rows if row.simulated}):
        rows_of_provenance = [row for row in comparison.rows if row.provenance == provenance]
        lines.append(f"{load.count_text(len(rows_of_provenance), 'cell')} {provenance}")
    if comparison.new:
        lines.append(f"only HEAD has {load.count_text(len(comparison.new), 'cell')}, not judged, such as {comparison.new[0]}")
    if any(not row.simulated for row in comparison.rows):
        limits = comparison.limits
        rounds_text = f"within {_rounds_text(comparison)}" if comparison.rounds else "over all runs of a side"
        aspect_limits_text = ", ".join(f"{name} {100 * share:g} %" for name, share in comparison.aspects.items() if name != "time")
        lines.append(f"measured cells: limit {100 * limits.relative:g} % and {load.time_text(limits.absolute_ns)}, {aspect_limits_text}; "
                     f"t test {rounds_text}, alpha {limits.alpha:g} over all cells ({limits.correction}), intervals "
                     f"{limits.confidence:.0%}")
    return lines


def _rounds_text(comparison):
    """A text such as '5 rounds', or '5 to 15 rounds' if ambiguous cells had more."""
    min_rounds = min((row.finding.runs[0] for row in comparison.rows if row.finding.runs and not row.simulated), default=comparison.rounds)
    return (f"{min_rounds} to " if 0 < min_rounds < comparison.rounds else "") + load.count_text(comparison.rounds, "round")


def rows_to_show(comparison, include_ok):
    """The rows to show, the worst first, and those that are ok only with `include_ok`."""
    rows = sorted(comparison.rows, key=lambda row: (VERDICTS.index(row.verdict), -(row.finding.change or 0.0)))
    return [row for row in rows if include_ok or row.verdict != "ok"]


def column_texts(row):
    finding = row.finding
    change_text = "" if finding.change is None else f"{finding.change:+.2%}"
    interval_text = "" if finding.low is None else f"{percent_text(finding.low)} to {percent_text(finding.high)}"
    p_text = "" if finding.p_adjusted is None else f"{finding.p_adjusted:.2g}"
    return [load.time_text(finding.base_ns), load.time_text(finding.head_ns), change_text, interval_text, p_text, "; ".join(row.reasons)]


def percent_text(share):
    return f"{share:+.1%}" if abs(share) < 100 else "far" if share > 0 else "-far"


COLUMNS = ["verdict", "base", "head", "change", "interval", "p", "why", "cell"]


def as_text(comparison, include_ok):
    rows = [[row.verdict, *column_texts(row), row.key] for row in rows_to_show(comparison, include_ok)]
    lines = [headline(comparison), *filter(None, [mean_text(comparison)])]
    if rows:
        widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
        lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in [COLUMNS, *rows]]
    return "\n".join([*lines, *side_lines(comparison), *note_lines(comparison)]) + "\n"


def side_lines(comparison):
    return [f"{side} {path}: {text}" for side, path, text in zip(("BASE", "HEAD"), (comparison.base, comparison.head), comparison.sides)]


def as_markdown(comparison, include_ok):
    lines = [f"### umbench: {headline(comparison)}", "",
             *(f"- {text}" for text in [mean_text(comparison), *side_lines(comparison)] if text), ""]
    rows = rows_to_show(comparison, include_ok)
    if rows:
        lines += ["| " + " | ".join(["", "cell", *COLUMNS[:-1]]) + " |", "|" + " --- |" * (len(COLUMNS) + 1)]
        for row in rows[:MAX_ROWS]:
            texts = [SIGNS[row.verdict], row.name, row.verdict, *column_texts(row)]
            lines.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
        if len(rows) > MAX_ROWS:
            lines += ["", f"and {len(rows) - MAX_ROWS} more cells"]
        lines.append("")
    lines += [f"- {note}" for note in note_lines(comparison)]
    return "\n".join(lines) + "\n"


def as_json(comparison, _):
    cells = [{"key": row.key, "name": row.name, "simulated": row.simulated, **row.finding._asdict(), "verdict": row.verdict,
              "reason": "; ".join(row.reasons) or None, "aspects": [change._asdict() for change in row.changes]}
             for row in comparison.rows]
    for cell in cells:
        for name in ("samples", "runs"):
            cell["base_" + name], cell["head_" + name] = cell.pop(name) or (None, None)
    document = {"kind": "comparison", "schema": 1, "base": comparison.base, "head": comparison.head, "sides": comparison.sides,
                "verdict": overall_verdict(comparison), "limits": comparison.limits._asdict() | {"aspects": comparison.aspects},
                "fail_on": sorted(comparison.fail_on), "rounds": comparison.rounds, "mean": comparison.mean and comparison.mean._asdict(),
                "counts": counts_by_verdict(comparison), "machine_files": comparison.machines, "unlike": comparison.unlike, "noted": comparison.noted,
                "disturbed": comparison.disturbance_notes,
                "two_speeds": [{"key": key, "side": side, "text": text} for key, side, text in comparison.at_two_speeds],
                "only_in_head": comparison.new, "exit_code": comparison.exit_code, "cells": cells}
    return json.dumps(_without_infinities(document), indent=1, allow_nan=False) + "\n"


def _without_infinities(value):
    if isinstance(value, dict):
        return {name: _without_infinities(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinities(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
