"""Makes the report as one HTML page from the template plots/report.html. The page contains its styles and figures; its content policy forbids
the browser to load anything."""

import base64
from collections import namedtuple
from pathlib import Path

from umbench import dependencies

dependencies.require("jinja2")

import jinja2  # noqa: E402

from umbench import fingerprint, iteration_times, load  # noqa: E402
from umbench.plots import growth  # noqa: E402
from umbench.plots.report_parts import fastest_first, slowdown_of  # noqa: E402
from umbench.plots.table import cell_text  # noqa: E402
from umbench.plots.verdict import verdict_sentences  # noqa: E402

Part = namedtuple("Part", "name heading section image", defaults=(None, None))


def page_html(title, record_files, environments, records, sections):
    """The page as text."""
    growth_panels = growth.records_by_panel(records)
    ids_of_growing_cells = {id(cell) for lines in growth_panels.values() for line in lines.values() for cell in line}
    groups = load.records_by_group([record for record in records if id(record) not in ids_of_growing_cells])
    missing = [section.text for section in sections if section.figure is None]
    reasons = [record for record in records if record.get("reason")]
    parts = [Part("best", "Which strategy is best")] if groups or growth_panels else []
    parts += [Part(section.name, section.title, section, base64.b64encode(section.figure).decode())
              for section in sections if section.figure is not None]
    rest = (("cells", "All cells", groups), ("missing", "What is not here", missing),
            ("reasons", "Why cells have no time", reasons), ("places", "Where and with what", environments))
    parts += [Part(name, heading) for name, heading, content in rest if content]
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        (Path(__file__).resolve().parent / "report.html").read_text(encoding="utf-8"))
    return template.render(title=title, files=", ".join(map(str, record_files)), count=load.count_text(len(records), "cell"), parts=parts,
                           verdicts=[_verdict_values(*each) for each in groups.items()],
                           growths=[_growth_values(*key, lines) for key, lines in growth_panels.items()],
                           tables=[_table_values(*each) for each in groups.items()], missing=missing, reasons=reasons,
                           places=[_environment_values(environment) for environment in environments])


def _heading_values(group):
    return {"kind": "simulated" if group.simulated else "measured",
            "network": load.network_text(group).replace("batch 0, ", ""), "machine": load.machine_text(group)}


def _verdict_values(group, cells):
    baseline = next((cell["baseline_ns"] for cell in cells if cell["baseline_ns"]), None)
    lines, ratio_of = load.records_by_strategy(cells), lambda cell: cell["ratio"]
    best = _best_values("ratio", fastest_first(lines, slowdown_of, ratio_of), lines.get("managed"), ratio_of, lambda cell: cell["baseline_ns"])
    return _heading_values(group) | {"sentences": verdict_sentences(group, cells, baseline), "best": best if baseline else None}


def _growth_values(axis_key, group, lines):
    """The part of the page on growing work, in the form of _verdict_values(): slowdowns are relative to the sum of the cells' operators."""
    cells = fastest_first(lines, lambda cell: slowdown_of(cell | {"baseline_ns": cell.get("compute_ns")}), growth.AXES[axis_key])
    best = _best_values(growth.AXIS_NAMES[axis_key], cells, lines.get("managed"), growth.AXES[axis_key], lambda cell: cell["compute_ns"])
    return _heading_values(group) | {"sentences": [], "best": best and best | {"ratios": True}}


def _best_values(axis_name, cells_by_value, managed_cells, axis_value_of, baseline_of):
    """A row for each value of an axis: the three fastest strategies and plain managed memory. fastest_first() returned `cells_by_value`;
    axis_value_of(record) is the record's value on the axis."""
    managed_text = {axis_value_of(record): cell_text(record, baseline_of(record)) for record in managed_cells or ()}
    rows = []
    for value, found in cells_by_value.items():
        named = [f"{label} {iteration_times.slowdown_text(record, baseline_of(record))}" for _, label, record in found[:3]]
        rows.append({"at": f"{value:.4g}" if isinstance(value, float) else value, "ratio": f"{found[0][2]['ratio'] or 0:.3g}",
                     "named": named + [""] * (3 - len(named)), "managed": managed_text.get(value, ""), "n": iteration_times.spread_of(found[0][2]).n})
    return {"what": axis_name, "ratios": False, "rows": rows} if rows else None


def _table_values(group, cells):
    lines = load.records_by_strategy(cells)
    ratios = sorted({record["ratio"] for line in lines.values() for record in line})
    rows = []
    for label, line in lines.items():
        by_ratio = {record["ratio"]: record for record in line}
        rows.append((label, [cell_text(by_ratio.get(ratio), (by_ratio.get(ratio) or {}).get("baseline_ns")) for ratio in ratios]))
    return _heading_values(group) | {"samples": iteration_times.sample_counts_text(cells), "ratios": [f"{ratio:.4g}" for ratio in ratios], "rows": rows}


def _environment_values(environment):
    facts = {name: environment.get(name) for name in ("umbench", "created")} | fingerprint.facts_of(environment)
    driver_module = {name: value for name, value in facts.items() if name.startswith("nvidia_uvm.")}
    facts = {name: value for name, value in facts.items() if name not in driver_module}
    facts |= {name: f"not known: {why}" for name, why in fingerprint.unknown_facts(environment).items()}
    return {"facts": [(name.replace(".facts.", "."), value) for name, value in facts.items()],
            "module": [(name.removeprefix("nvidia_uvm."), value) for name, value in driver_module.items()]}
