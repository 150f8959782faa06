"""The report as one HTML page that needs nothing else: styles and figures are in it, and its own policy forbids the
browser to load anything."""

import base64
from html import escape

from umbench.plots.common import load

from umbench.plots import growth
from umbench.plots.report_parts import best_first, over, verdict
from umbench import fingerprint, iteration_times
from umbench.plots.table import cell_text

STYLE = """
:root { color-scheme: light; }
body { overflow-wrap: anywhere; font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 68rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
.verdict { background: #f2f6fa; border-left: 4px solid #0072b2; padding: .6rem 1.2rem; }
.kind { font-size: .8rem; font-weight: 600; padding: .1rem .5rem; border-radius: .6rem; color: #fff; }
.measured { background: #006b4f; } .simulated { background: #7a4b00; }
img { width: 100%; max-width: 900px; min-width: 50rem; height: auto; } figure { margin: 1rem 0; overflow-x: auto; }
table { overflow-wrap: normal; border-collapse: collapse; font-size: .9rem; } td, th { padding: .2rem .6rem; border-bottom: 1px solid #ddd;
       text-align: right; } td:first-child, th:first-child { text-align: left; }
nav { font-size: .9rem; } nav ol { columns: 16rem; } section:target > h2 { background: #fff6d6; }
.wide { overflow-x: auto; } .small { color: #555; font-size: .85rem; } dt { font-weight: 600; } dd { margin: 0 0 .3rem 1rem; }
"""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(title, files, environments, records, sections):
    growing = growth.panels_of(records)
    grown = {id(cell) for lines in growing.values() for line in lines.values() for cell in line}
    groups = load.groups([record for record in records if id(record) not in grown])
    parts = [("best", "Which strategy is best", _verdicts(groups) + _growths(growing))]
    parts += [(section.name, section.title, _section(section)) for section in sections if section.figure is not None]
    missing = "".join(f"<li>{escape(section.text)}</li>" for section in sections if section.figure is None)
    parts += [("cells", "All cells", _tables(groups)), ("missing", "What is not here", missing and f"<ul>{missing}</ul>"),
              ("reasons", "Why cells have no time", _reasons(records)),
              ("places", "Where and with what", _places(environments))]
    parts = [part for part in parts if part[2]]
    contents = "".join(f"<li><a href='#{name}'>{escape(heading)}</a></li>" for name, heading, _ in parts)
    body = [f"<h1>{escape(title)}</h1>", f"<p class='small'>From {escape(', '.join(map(str, files)))}; "
            f"{load.counted(len(records), 'cell')}.</p>", f"<nav><ol>{contents}</ol></nav>"]
    body += [f"<section id='{name}'><h2>{escape(heading)}</h2>\n{text}</section>" for name, heading, text in parts]
    return ("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
            f"<meta http-equiv='Content-Security-Policy' content=\"{POLICY}\">"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n")


def _kind(group):
    kind = "simulated" if group.simulated else "measured"
    return f"<span class='kind {kind}'>{kind}</span>"


def _heading(group):
    return f"<h3>{_kind(group)} {escape(load.network_text(group))} &middot; {escape(load.machine_text(group))}</h3>"


def _verdicts(groups):
    parts = []
    for group, cells in groups.items():
        baseline = next((cell["baseline_ns"] for cell in cells if cell["baseline_ns"]), None)
        sentences = verdict(group, cells, baseline)
        parts.append(_heading(group) + f"<p>{escape(' '.join(sentences))}</p>"
                     + (_best("ratio", best_first(load.lines(cells), over, lambda cell: cell["ratio"]), load.lines(cells).get("managed"),
                              lambda cell: cell["ratio"], lambda cell: cell["baseline_ns"]) if baseline else ""))
    return "<div class='verdict'>" + "\n".join(parts) + "</div>" if parts else ""


def _growths(growing):
    """The same of work that grows: slowdown is over the cells' own operators."""
    parts = []
    for (axis, group), lines in growing.items():
        cells = best_first(lines, lambda cell: over(cell | {"baseline_ns": cell.get("compute_ns")}), growth.AXES[axis])
        heading = _heading(group).replace("batch 0, ", "")
        parts.append(heading + _best(growth.NAMES[axis], cells, lines.get("managed"), growth.AXES[axis],
                                     lambda cell: cell["compute_ns"], ratios=True))
    return "<div class='verdict'>" + "\n".join(parts) + "</div>" if parts else ""


def _best(what, cells, plain, key, base, ratios=False):
    """A row for each place: the fastest strategy, the next two, and plain managed memory, whose cells are `plain`."""
    rows, plain = [], {key(record): cell_text(record, base(record)) for record in plain or ()}
    for at, found in cells.items():
        named = [f"{escape(label)} {iteration_times.factor_text(record, base(record))}" for _, label, record in found[:3]]
        managed = escape(plain.get(at, ""))
        first = f"{at:.4g}" if isinstance(at, float) else str(at)
        ratio = f"<td>{found[0][2]['ratio']:.3g}</td>" if ratios else ""
        rows.append(f"<tr><td>{first}</td>{ratio}<td><b>{named[0]}</b></td>"
                    + "".join(f"<td>{name}</td>" for name in named[1:] + [""] * (3 - len(named)))
                    + f"<td>{managed}</td><td>{iteration_times.of(found[0][2]).n}</td></tr>")
    head = (f"<th>{escape(what)}</th>" + ("<th>ratio</th>" if ratios else "")
            + "<th>fastest</th><th>second</th><th>third</th><th>plain managed</th><th>n</th>")
    return f"<div class='wide'><table><tr>{head}</tr>{''.join(rows)}</table></div>" if rows else ""


def _section(section):
    text = f"<p>{escape(section.text)}</p>"
    image = base64.b64encode(section.figure).decode()
    links = " &middot; ".join(f"<a href='{section.name}.{kind}'>{kind.upper()}</a>" for kind in ("png", "svg", "pdf", "csv"))
    return (f"{text}\n<figure><img alt='{escape(section.title)}; the CSV beside it has the figures' "
            f"src='data:image/png;base64,{image}'><figcaption class='small'>{links}</figcaption></figure>")


def _tables(groups):
    parts = ["<p>Slowdown by ratio, with half of the range between the quartiles where that shows; milliseconds where there is no "
             "cell with everything on the device.</p>"]
    for group, cells in groups.items():
        lines = load.lines(cells)
        ratios = sorted({record["ratio"] for line in lines.values() for record in line})
        head = "".join(f"<th>{ratio:.4g}</th>" for ratio in ratios)
        rows = []
        for label, line in lines.items():
            by_ratio = {record["ratio"]: record for record in line}
            row = "".join(f"<td>{escape(cell_text(by_ratio.get(ratio), (by_ratio.get(ratio) or {}).get('baseline_ns')))}</td>"
                          for ratio in ratios)
            rows.append(f"<tr><td>{escape(label)}</td>{row}</tr>")
        parts.append(f"{_heading(group)}<p class='small'>{iteration_times.samples_text(cells)}</p>"
                     f"<div class='wide'><table><tr><th>strategy</th>{head}</tr>{''.join(rows)}</table></div>")
    return "\n".join(parts) if groups else ""


def _reasons(records):
    without = [record for record in records if record.get("reason")]
    if not without:
        return ""
    rows = "".join(f"<dt><code>{escape(r['key'])}</code></dt><dd>{escape(r['outcome'])}: {escape(r['reason'])}</dd>"
                   for r in without)
    return f"<details><summary>{len(without)} cells</summary><dl>{rows}</dl></details>"


def _places(environments):
    parts = []
    for environment in environments:
        facts = {name: environment.get(name) for name in ("umbench", "created")} | fingerprint.flat(environment)
        module = {name: value for name, value in facts.items() if name.startswith("nvidia_uvm.")}
        parts.append(_facts({name: value for name, value in facts.items() if name not in module}
                            | {name: f"not known: {why}" for name, why in fingerprint.unknown(environment).items()}))
        if module:
            parts.append("<details><summary>Parameters of the driver's module nvidia_uvm</summary>"
                         f"{_facts({name.removeprefix('nvidia_uvm.'): value for name, value in module.items()})}</details>")
    return "\n".join(parts)


def _facts(facts):
    rows = "".join(f"<tr><td>{escape(name.replace('.facts.', '.'))}</td><td>{escape(str(value))}</td></tr>"
                   for name, value in facts.items())
    return f"<div class='wide'><table>{rows}</table></div>"
