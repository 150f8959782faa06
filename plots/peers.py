"""Comparisons with other frameworks as Markdown tables, from results/peers/*.jsonl.

Ratios are those of umbench to the peer's fastest mode. "time / floor" is umbench's time divided by the least time that the card's measured
rates allow for its operators with direct convolutions; Winograd's need less arithmetic, so it can be below 1. Errors of gradients are
medians over all tensors: between umbench and the peer, and of each relative to a more exact run of the peer.
"""

import argparse
import sys

from umbench import load, peer_files

NAMES = {"alexnet": "AlexNet", "vgg": "VGG-", "resnet": "ResNet-"}
LAUNCHES = {"cuda_graph": "CUDA graph", "streams": "streams"}
MODES = {"eager": "eager", "graph": "CUDA graph", "compile": "compiled", "compile_graph": "compiled, CUDA graph"}
COLUMNS = ["network", "batch", "precision", "umbench", "PyTorch", "time ratio", "umbench peak", "PyTorch peak",
        "peak ratio", "time / floor (direct convolution)", "gradients apart", "umbench to exact", "PyTorch to exact"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.jsonl")
    parser.add_argument("--gaps", action="store_true", help="also the operators with most of the time above the floor")
    parser.add_argument("--modes", action="store_true", help="also every mode of the peer, and why one is missing")
    options = parser.parse_args()
    rows = peer_files.read(options.file)
    if not rows:
        raise load.TooLittle(f"{options.file}: no row, no table")
    parts = [settings_text(rows), main_table(rows)]
    parts += [operator_kind_table(rows), operators_above_floor_table(rows)] if options.gaps else []
    parts += [mode_table(rows)] if options.modes else []
    print("\n\n".join(parts))


def settings_text(rows):
    """A line with the settings that the rows have in common, and all versions if they differ."""
    def values_of(field):
        return ", ".join(dict.fromkeys(str(row["versions"][field]) for row in rows))

    cudnn = ", ".join(dict.fromkeys(cudnn_version_text(row["versions"]["cudnn"]) for row in rows))
    return (f"{values_of('gpu')}, driver {values_of('driver')}; PyTorch {values_of('torch')} with CUDA {values_of('cuda')} and cuDNN "
            f"{cudnn}; umbench {values_of('umbench')} with CUDA {values_of('umbench_cuda')} and cuDNN "
            f"{values_of('umbench_cudnn')}")


def cudnn_version_text(version_number):
    """The text of a version number of cuDNN 9 or later: '9.19.0' for 91900."""
    return f"{version_number // 10000}.{version_number // 100 % 100}.{version_number % 100}"


def network_text(name):
    for start, text in NAMES.items():
        if name.startswith(start):
            return text + name[len(start):]
    return name


def main_table(rows):
    return markdown_table(COLUMNS, [main_row(row) for row in rows])


def main_row(row):
    mode = peer_files.fastest_mode(row)
    theirs = f"{number_text(row['pytorch_ms'], 'ms')} ({MODES[mode['way']]})" if mode else "did not run"
    ours = "did not run"
    if row["umbench_ms"] is not None:
        run = row["umbench"]
        ours = f"{number_text(row['umbench_ms'], 'ms')} ({run['fusion']}, {LAUNCHES[run['launch']]})"
    return [*network_cells(row), ours, theirs, number_text(row["time_ratio"]), gib_text(row["umbench_peak_bytes"]),
            gib_text(row["pytorch_peak_bytes"]), number_text(row["peak_ratio"]), number_text(row["floor_ratio"]),
            *(gradient_error_text(row["gradients"], pair) for pair in ("to_pytorch", "umbench_to_reference", "pytorch_to_reference"))]


def number_text(value, unit=""):
    if value is None:
        return "-"
    return f"{value:.2f}" if not unit else f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2}f} {unit}"


def gib_text(byte_count):
    return "-" if byte_count is None else f"{byte_count / 2**30:.2f} GiB"


def gradient_error_text(gradients, pair_name):
    if not gradients or "reason" in gradients or pair_name not in gradients:
        return "-"
    if gradients[pair_name]["worst"] is None:
        return "not finite"
    exact = f" ({gradients['reference']})" if pair_name != "to_pytorch" else ""
    return f"{gradients[pair_name]['median']:.1e}{exact}"


def operator_kind_table(rows, max_kinds=5):
    """A table of kinds of operators with their shares of the time above the floor."""
    body = []
    for row in rows:
        kinds = [kind for kind in row["gap_kinds"] or [] if kind["time_ms"] > kind["floor_ms"]]
        whole = sum(kind["time_ms"] - kind["floor_ms"] for kind in kinds)
        body += [[*network_cells(row), f"`{kind['kind']}`", str(kind["operators"]), number_text(kind["time_ms"], "ms"),
                  number_text(kind["floor_ms"], "ms"), f"{100 * (kind['time_ms'] - kind['floor_ms']) / whole:.0f} %"]
                 for kind in kinds[:max_kinds]]
    return markdown_table(["network", "batch", "precision", "kind", "operators", "time", "floor", "share of the gap"], body,
                          left_aligned_columns=(3,))


def network_cells(row):
    """The first cells of a table's row: network, batch, precision."""
    return [network_text(row["network"]), str(row["batch"]), row["precision"]]


def operators_above_floor_table(rows):
    head = ["network", "batch", "precision", "operator", "time", "floor", "engine"]
    return markdown_table(head, [[*network_cells(row), f"`{gap['op']}`",
                                  number_text(gap["time_ms"], "ms"), number_text(gap["floor_ms"], "ms"), gap["engine"]]
                                 for row in rows for gap in row["gaps"] or []], left_aligned_columns=(3, 6))


def mode_table(rows):
    head = ["network", "batch", "precision", "mode", "time", "peak"]
    body = []
    for row in rows:
        for mode in row["modes"]:
            figures = [number_text(mode["ms"], "ms"), gib_text(mode["peak_bytes"])] if "ms" in mode else [mode["reason"], "-"]
            body.append([*network_cells(row), f"{MODES[mode['way']]}, {mode['memory_order']}", *figures])
    return markdown_table(head, body, left_aligned_columns=(3,))


def markdown_table(head, body_rows, left_aligned_columns=()):
    rule = ["---" if column == 0 or column == 2 or column in left_aligned_columns else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [head, rule, *body_rows])


if __name__ == "__main__":
    sys.exit(load.report_errors(main))
