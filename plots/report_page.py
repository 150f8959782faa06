"""The report as one self-contained HTML page. plots/report.html is its template. It contains its styles and figures, and its content policy
forbids the browser to load anything."""

import base64
from collections import namedtuple
from pathlib import Path

from umbench import dependencies

dependencies.require("jinja2")

import jinja2  # noqa: E402

from umbench import fingerprint, iteration_times, load  # noqa: E402
from umbench.plots import growth  # noqa: E402
from umbench.plots.report_parts import best_first, slowdown_of  # noqa: E402
from umbench.plots.table import cell_text  # noqa: E402
from umbench.plots.verdict import verdict  # noqa: E402

Part = namedtuple("Part", "name heading section image", defaults=(None, None))


def page(title, files, environments, records, sections):
    growing = growth.panels_of(records)
    grown = {id(cell) for lines in growing.values() for line in lines.values() for cell in line}
    groups = load.groups([record for record in records if id(record) not in grown])
    missing = [section.text for section in sections if section.figure is None]
    reasons = [record for record in records if record.get("reason")]
    parts = [Part("best", "Which strategy is best")] if groups or growing else []
    parts += [Part(section.name, section.title, section, base64.b64encode(section.figure).decode())
              for section in sections if section.figure is not None]
    rest = (("cells", "All cells", groups), ("missing", "What is not here", missing),
            ("reasons", "Why cells have no time", reasons), ("places", "Where and with what", environments))
    parts += [Part(name, heading) for name, heading, found in rest if found]
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        (Path(__file__).resolve().parent / "report.html").read_text(encoding="utf-8"))
    return template.render(title=title, files=", ".join(map(str, files)), count=load.count_text(len(records), "cell"), parts=parts,
                           verdicts=[_verdict(*each) for each in groups.items()],
                           growths=[_growth(*key, lines) for key, lines in growing.items()],
                           tables=[_table(*each) for each in groups.items()], missing=missing, reasons=reasons,
                           places=[_environment_facts(environment) for environment in environments])


def _heading(group):
    return {"kind": "simulated" if group.simulated else "measured",
            "network": load.network_text(group).replace("batch 0, ", ""), "machine": load.machine_text(group)}


def _verdict(group, cells):
    baseline = next((cell["baseline_ns"] for cell in cells if cell["baseline_ns"]), None)
    lines, ratio_of = load.lines(cells), lambda cell: cell["ratio"]
    best = _best("ratio", best_first(lines, slowdown_of, ratio_of), lines.get("managed"), ratio_of, lambda cell: cell["baseline_ns"])
    return _heading(group) | {"sentences": verdict(group, cells, baseline), "best": best if baseline else None}


def _growth(axis, group, lines):
    """The part of the page on growing work, in the form of _verdict(): slowdowns are relative to the sum of the cells' operators."""
    cells = best_first(lines, lambda cell: slowdown_of(cell | {"baseline_ns": cell.get("compute_ns")}), growth.AXES[axis])
    best = _best(growth.NAMES[axis], cells, lines.get("managed"), growth.AXES[axis], lambda cell: cell["compute_ns"])
    return _heading(group) | {"sentences": [], "best": best and best | {"ratios": True}}


def _best(what, cells, plain, key, base):
    """A row for each value of `key`: the fastest strategy, the next two, and plain managed memory, whose cells are `plain`."""
    plain = {key(record): cell_text(record, base(record)) for record in plain or ()}
    rows = []
    for at, found in cells.items():
        named = [f"{label} {iteration_times.slowdown_text(record, base(record))}" for _, label, record in found[:3]]
        rows.append({"at": f"{at:.4g}" if isinstance(at, float) else at, "ratio": f"{found[0][2]['ratio'] or 0:.3g}",
                     "named": named + [""] * (3 - len(named)), "managed": plain.get(at, ""), "n": iteration_times.spread_of(found[0][2]).n})
    return {"what": what, "ratios": False, "rows": rows} if rows else None


def _table(group, cells):
    lines = load.lines(cells)
    ratios = sorted({record["ratio"] for line in lines.values() for record in line})
    rows = []
    for label, line in lines.items():
        by_ratio = {record["ratio"]: record for record in line}
        rows.append((label, [cell_text(by_ratio.get(ratio), (by_ratio.get(ratio) or {}).get("baseline_ns")) for ratio in ratios]))
    return _heading(group) | {"samples": iteration_times.samples_text(cells), "ratios": [f"{ratio:.4g}" for ratio in ratios], "rows": rows}


def _environment_facts(environment):
    facts = {name: environment.get(name) for name in ("umbench", "created")} | fingerprint.facts_of(environment)
    module = {name: value for name, value in facts.items() if name.startswith("nvidia_uvm.")}
    facts = {name: value for name, value in facts.items() if name not in module}
    facts |= {name: f"not known: {why}" for name, why in fingerprint.unknown_facts(environment).items()}
    return {"facts": [(name.replace(".facts.", "."), value) for name, value in facts.items()],
            "module": [(name.removeprefix("nvidia_uvm."), value) for name, value in module.items()]}
