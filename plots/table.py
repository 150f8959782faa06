"""Prints a table of slowdowns for each network and machine: a row for each strategy, a column for each ratio. Values are medians of the
iterations after the first, with half of the distance of their quartiles if it is visible.

--link FILE takes the rates of the link from a machine file (results/machines, umbench calibrate) and adds to each cell the share of its rate
that the busier direction used, on average over its last iteration.
"""

import sys

from umbench import iteration_times, load
from umbench.arguments import Parser

SHORT = {"infeasible": "no fit", "out_of_memory": "no memory",
         "host_out_of_memory": "no host memory", "wrong_result": "wrong"}


def main():
    parser = Parser("umbench plot table", description=" ".join(__doc__.split()))
    parser.add_argument("files", nargs="+", metavar="FILE.jsonl")
    parser.add_argument("--markdown", action="store_true", help="tables for a Markdown page")
    parser.add_argument("--link", metavar="MACHINE.json", help="add each cell's share of that machine's link")
    options = parser.parse_args()
    records = load.read_records(options.files)
    link = read_link_rates(options.link) if options.link else None
    if not records:
        raise load.TooLittle(f"{', '.join(options.files)}: no record, no table")
    baselines = load.baseline_ns_by_group(records)
    print("\n\n".join(table_text(group, cells, load.baseline_ns_of_group(group, baselines), options.markdown, link)
                      for group, cells in load.records_by_group(records).items()))


def read_link_rates(machine_file):
    """The machine's name, and the rates of its link in both directions in bytes a second."""
    machine = load.read_json(machine_file, "--link ")
    try:
        return machine["name"], machine["link_to_device_bytes_per_s"], machine["link_to_host_bytes_per_s"]
    except (KeyError, TypeError) as error:
        raise load.BadInput(f"--link {machine_file}: no machine file of umbench ({error})") from error


def table_text(group, cells, baseline_ns, is_markdown, link_rates=None):
    ratios = sorted({record["ratio"] for records in load.records_by_strategy(cells).values() for record in records})
    head = ["ratio"] + [f"{ratio:g}" for ratio in ratios]
    rows = []
    for label, records in load.records_by_strategy(cells).items():
        by_ratio = {record["ratio"]: record for record in records}
        rows.append([label] + [cell_text(by_ratio.get(ratio), baseline_ns, link_rates) for ratio in ratios])
    if baseline_ns:
        unit = f"1x = {baseline_ns / 1e6:.4g} ms an iteration with everything on the device"
    else:
        unit = "no device baseline: milliseconds an iteration"
    if link_rates:
        unit += f"; % of the link of machine file {link_rates[0]}"
    title = "; ".join(filter(None, [load.network_text(group), load.machine_text(group), unit, iteration_times.sample_counts_text(cells)]))
    return as_markdown(title, head, rows) if is_markdown else as_text(title, head, rows)


def cell_text(record, baseline_ns, link_rates=None):
    if record is None:
        return ""
    if load.steady_ns(record) is None:
        return SHORT.get(record["outcome"], record["outcome"])
    text = iteration_times.slowdown_text(record, baseline_ns) if baseline_ns else iteration_times.milliseconds_text(record)
    share = load.link_share(record, link_rates[1], link_rates[2]) if link_rates else None
    return text if share is None else f"{text} {100 * share:.0f} %"


def as_text(title, head, rows):
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join([row[0].ljust(widths[0])] + [text.rjust(width) for text, width in zip(row[1:], widths[1:])])
             for row in [head, *rows]]
    return "\n".join([title, lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(title, head, rows):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join([f"{title}", ""] + ["| " + " | ".join(row) + " |" for row in [head, rule, *rows]])


if __name__ == "__main__":
    sys.exit(load.report_errors(main, "umbench"))
