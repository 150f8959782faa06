"""A comparison as text, Markdown or JSON."""

import json
import math

from umbench import load, output
from umbench.comparison import EXIT_REGRESSED, VERDICTS

SIGNS = {"regressed": "❌", "insufficient": "❔", "unlike": "❔", "tolerated": "🟡", "ambiguous": "⚠️", "improved": "🚀", "ok": "✅"}
MAX_ROWS = 50  # maximum number of rows in Markdown, so that a page shows them completely


def write(found, options):
    as_wanted = {"text": as_text, "markdown": as_markdown, "json": as_json}[options.format]
    output.write(as_wanted(found, options.all), options.out)


def counts(found):
    tally = {verdict: 0 for verdict in VERDICTS}
    for row in found.rows:
        tally[row.verdict] += 1
    return tally


def verdict(found):
    """One word for all cells; "unlike" if only changed machine files prevent cells from being judged."""
    if found.exit_code == load.EXIT_TOO_LITTLE and counts(found)["unlike"] and not counts(found)["insufficient"]:
        return "unlike"
    return {EXIT_REGRESSED: "regressed", load.EXIT_TOO_LITTLE: "too little data"}.get(found.exit_code, "ok")


def changed_files(found):
    """A text on the machine files that changed and the effect on their cells; empty if none changed."""
    if not found.machines:
        return ""
    names = " and ".join(found.machines)
    told = f"machine {'file' if len(found.machines) == 1 else 'files'} {names} changed (figures_digest)"
    cells = load.count_text(sum(found.machines.values()), "cell")
    if counts(found)["unlike"]:
        return f"{told}, {cells} not judged (--allow-unlike judges them); "
    return f"{told}, which may explain {cells}; "


def headline(found):
    tally = counts(found)
    words = ", ".join(f"{tally[verdict]} {verdict}" for verdict in VERDICTS if tally[verdict])
    kinds = {row.simulated for row in found.rows}
    by_mean = " by the mean of all cells" if found.exit_code == EXIT_REGRESSED and not tally["regressed"] else ""
    kind = "measured" if kinds == {False} else "simulated" if kinds == {True} else "measured and simulated"
    return f"{changed_files(found)}{verdict(found)}{by_mean}: {load.count_text(len(found.rows), f'{kind} cell')}, {words}"


def mean_text(found):
    """A text on the geometric mean; None if fewer than two cells have a change."""
    mean = found.mean
    if mean is None:
        return None
    verdict = mean.verdict if mean.verdict != "regressed" or "mean" in found.fail_on else "tolerated"
    return (f"geometric mean of {mean.cells} measured cells: {mean.change:+.2%} ({mean.low:+.2%} to {mean.high:+.2%}), limit "
            f"{100 * mean.limit:.3g} %: {verdict}")


def notes(found):
    lines = [f"places differ, compared all the same: {difference}" for difference in found.unlike]
    lines += [*found.noted, *found.disturbed]
    lines += [f"{key}: {text}" for key, _, text in found.speeds[:5]]
    if len(found.speeds) > 5:
        lines.append(f"and {len(found.speeds) - 5} more of two speeds")
    for provenance in sorted({row.provenance for row in found.rows if row.simulated}):
        alike = [row for row in found.rows if row.provenance == provenance]
        lines.append(f"{load.count_text(len(alike), 'cell')} {provenance}")
    if found.new:
        lines.append(f"only HEAD has {load.count_text(len(found.new), 'cell')}, not judged, such as {found.new[0]}")
    if any(not row.simulated for row in found.rows):
        limits = found.limits
        how = f"within {_rounds_text(found)}" if found.rounds else "over all runs of a side"
        others = ", ".join(f"{name} {100 * share:g} %" for name, share in found.aspects.items() if name != "time")
        lines.append(f"measured cells: limit {100 * limits.relative:g} % and {load.time_text(limits.absolute_ns)}, {others}; "
                     f"t test {how}, alpha {limits.alpha:g} over all cells ({limits.correction}), intervals "
                     f"{limits.confidence:.0%}")
    return lines


def _rounds_text(found):
    """A text such as '5 rounds', or '5 to 15 rounds' if ambiguous cells had more."""
    least = min((row.finding.runs[0] for row in found.rows if row.finding.runs and not row.simulated), default=found.rounds)
    return (f"{least} to " if 0 < least < found.rounds else "") + load.count_text(found.rounds, "round")


def rows_to_show(found, everything):
    """The rows to show, the worst first, and those that are ok only with `everything`."""
    rows = sorted(found.rows, key=lambda row: (VERDICTS.index(row.verdict), -(row.finding.change or 0.0)))
    return [row for row in rows if everything or row.verdict != "ok"]


def cell_texts(row):
    finding = row.finding
    change = "" if finding.change is None else f"{finding.change:+.2%}"
    interval = "" if finding.low is None else f"{percent(finding.low)} to {percent(finding.high)}"
    p = "" if finding.p_adjusted is None else f"{finding.p_adjusted:.2g}"
    return [load.time_text(finding.base_ns), load.time_text(finding.head_ns), change, interval, p, "; ".join(row.reasons)]


def percent(share):
    return f"{share:+.1%}" if abs(share) < 100 else "far" if share > 0 else "-far"


COLUMNS = ["verdict", "base", "head", "change", "interval", "p", "why", "cell"]


def as_text(found, everything):
    rows = [[row.verdict, *cell_texts(row), row.key] for row in rows_to_show(found, everything)]
    lines = [headline(found), *filter(None, [mean_text(found)])]
    if rows:
        widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
        lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in [COLUMNS, *rows]]
    return "\n".join([*lines, *sides(found), *notes(found)]) + "\n"


def sides(found):
    return [f"{side} {path}: {text}" for side, path, text in zip(("BASE", "HEAD"), (found.base, found.head), found.sides)]


def as_markdown(found, everything):
    lines = [f"### umbench: {headline(found)}", "",
             *(f"- {text}" for text in [mean_text(found), *sides(found)] if text), ""]
    rows = rows_to_show(found, everything)
    if rows:
        lines += ["| " + " | ".join(["", "cell", *COLUMNS[:-1]]) + " |", "|" + " --- |" * (len(COLUMNS) + 1)]
        for row in rows[:MAX_ROWS]:
            texts = [SIGNS[row.verdict], row.name, row.verdict, *cell_texts(row)]
            lines.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
        if len(rows) > MAX_ROWS:
            lines += ["", f"and {len(rows) - MAX_ROWS} more cells"]
        lines.append("")
    lines += [f"- {note}" for note in notes(found)]
    return "\n".join(lines) + "\n"


def as_json(found, _):
    cells = [{"key": row.key, "name": row.name, "simulated": row.simulated, **row.finding._asdict(), "verdict": row.verdict,
              "reason": "; ".join(row.reasons) or None, "aspects": [change._asdict() for change in row.changes]}
             for row in found.rows]
    for cell in cells:
        for name in ("samples", "runs"):
            cell["base_" + name], cell["head_" + name] = cell.pop(name) or (None, None)
    document = {"kind": "comparison", "schema": 1, "base": found.base, "head": found.head, "sides": found.sides,
                "verdict": verdict(found), "limits": found.limits._asdict() | {"aspects": found.aspects},
                "fail_on": sorted(found.fail_on), "rounds": found.rounds, "mean": found.mean and found.mean._asdict(),
                "counts": counts(found), "machine_files": found.machines, "unlike": found.unlike, "noted": found.noted,
                "disturbed": found.disturbed,
                "two_speeds": [{"key": key, "side": side, "text": text} for key, side, text in found.speeds],
                "only_in_head": found.new, "exit_code": found.exit_code, "cells": cells}
    return json.dumps(_finite(document), indent=1, allow_nan=False) + "\n"


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
