"""The figures of README.md and docs/torch.md are those kept in results/torch."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def kept(name):
    return [json.loads(line) for line in (ROOT / "results/torch" / name).read_text(encoding="utf-8").splitlines()]


def one(rows, model, way, ratio=None, share=None, offloaded=False):
    """The row of a cell."""
    (row,) = [row for row in rows if (row["model"], row["way"]) == (model, way) and bool(row.get("offloaded")) == offloaded
              and (row["ratio"] == ratio if way == "fit" else row["value"] == share)]
    return row


def test_the_table_quotes_the_records():
    page = (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    fitted, stock = kept("fit_h100.jsonl"), kept("stock_h100.jsonl")
    shown = [row for row in fitted if any(other["way"] == "fit" and other["model"] == row["model"] for other in fitted)]
    for row in [*shown, *(one(stock, "resnet50", "share", share=share) for share in (0.7, 0.5))]:
        words = [f"{row['peak'] / 2**30:.2f} GiB", f"{row['ms']:.1f} ({row['ms_range'][0]:.1f})"]
        if "kernel_ms" in row:
            words.append(f"| {row['kernel_ms']['all']:.1f} |")
        if row["way"] == "fit":
            words += [f"| {row['value'] / 2**30:.2f} GiB", f"predicted {row['predicted']['peak'] / 2**30:.2f}",
                      "yes |" if row["under_cap"] is True else f"no, {row['under_cap']} step"]
            assert ("offloading" in next(line for line in page.splitlines() if words[1] in line)) == bool(row["offloaded"])
        assert any(all(word in line for word in words) for line in page.splitlines()), words
    assert all(row["fails_below"] or "out_of_memory" in row for row in fitted)
    assert sum(not row["fails_below"] for row in fitted) == 2


def test_the_table_quotes_how_long_compiling_takes():
    fitted, page = kept("fit_h100.jsonl"), (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    for model in ("resnet50", "vit_b16"):
        longer = one(fitted, model, "fit", 1.5)["first_step_s"] / one(fitted, model, "plain")["first_step_s"]
        assert f"{longer:.2f} times" in page


def test_the_pages_quote_the_medians_of_the_records():
    fitted = kept("fit_h100.jsonl")

    def slower(model, ratio, offloaded=False):
        return f"{one(fitted, model, 'fit', ratio, offloaded=offloaded)['ms'] / one(fitted, model, 'plain')['ms']:.2f}"

    def text(name):
        return " ".join((ROOT / name).read_text(encoding="utf-8").split())

    assert (f"ResNet-50 took {slower('resnet50', 1.5)} times as long on an H100 without offloading, "
            f"[in half {slower('resnet50', 2, True)} times with it]") in text("README.md")
    page = text("docs/torch.md")
    assert f"take {slower('resnet50', 1.5)}, {slower('gpt2_small', 1.5)} and {slower('vit_b16', 1.5)} times as long" in page
    assert f"ResNet-50 takes {slower('resnet50', 2)} times but breaks the cap, or {slower('resnet50', 2, True)} times with offloading" in page
    assert f"GPT-2 takes {slower('gpt2_small', 2)} or, offloading, {slower('gpt2_small', 2, True)} times" in page
    for row in (row for row in fitted if row["way"] == "fit"):
        assert (row["under_cap"] is True) == ((row["model"], row["ratio"], bool(row["offloaded"])) != ("resnet50", 2, False))
        free = 0.05 if row["model"] == "resnet50" or row["offloaded"] else 0.065
        assert 1 - row["predicted"]["peak"] / row["value"] == pytest.approx(free, abs=0.0015)


def test_the_page_of_optimizers_quotes_the_records():
    page = (ROOT / "docs/optimizer.md").read_text(encoding="utf-8").replace(",", "")
    rows = {row["place"]: row for row in kept("optimizer.jsonl")}
    told = dict(re.findall(r"(?m)^\| (.*) \| ([\d.]+) \|$", page))
    assert len(told) == len(rows) and all(row["same_bits"] for row in rows.values())
    for place, row in rows.items():
        name = {"device": "not: on the device"}.get(place, place.replace(",", "").replace("by device", "by the device"))
        assert told[name] == f"{row['step_ns'] / 1e6:.{max(0, 3 - len(str(int(row['step_ns'] / 1e6))))}f}", (name, row["step_ns"])
    copied, link, moves = (rows[place]["step_ns"] for place in ("pinned, copied in chunks", "pinned, stepped over the link", "managed"))
    assert f"read-mostly memory {rows['managed, read mostly']['step_ns'] / copied:.0f} times" in page
    assert f"{link / copied:.1f} times" in page and f"{rows['managed, prefetched in chunks']['step_ns'] / copied:.1f} to {moves / copied:.1f} times" in page


def test_launches_explain_the_steps_that_the_cpu_binds():
    rows = [row for row in kept("steps.jsonl") if "host_ns" in row["measured"]]
    a_kernel = sorted(row["measured"]["host_ns"] / row["measured"]["kernels"] / 1e3 for row in rows)
    page = " ".join((ROOT / "results/torch/README.md").read_text(encoding="utf-8").split())
    assert f"{a_kernel[0]:.0f} to {a_kernel[-1]:.0f} us to launch a kernel" in page and a_kernel[0] < 35 < a_kernel[-1]


def test_what_is_told_today_comes_close_to_what_was_measured():
    now = {row["network"]: row["predicted"] for row in kept("predicted.jsonl")}
    page = (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    for row in kept("steps.jsonl"):
        told, m = now[row["network"]], row["measured"]
        peak = m["peak_bytes"] - (m["base_bytes"] - m["given_bytes"] if "given_bytes" in m else 0)
        off = (told["peak_bytes"] + m["library_bytes"]) / peak - 1, told["step_launched_ns"] / m["step_ns"] - 1
        assert abs(off[0]) <= 0.05 and abs(off[1]) <= 0.2, row["network"]
        assert re.search(rf"\| {peak / 2**30:.2f} \|.*\| {100 * off[0]:+.1f} % \| {m['step_ns'] / 1e6:.1f} \|.*\| {100 * off[1]:+.1f} % \|".replace("+", "[+]"), page)


def test_the_share_of_filters_of_one_channel_follows_from_kernels():
    (row,) = [row for row in kept("kernels.jsonl") if row["network"] == "convnext_tiny"]
    forward, backward = (sum(us for name, _, us in row["kernels"] if name.startswith(kind)) for kind in (("conv2d_c1",), ("dgrad2d_c1", "wgrad2d_c1")))
    flops = sum(2 * 64 * size**2 * channels * 49 * blocks for size, channels, blocks in ((56, 96, 3), (28, 192, 3), (14, 384, 9), (7, 768, 3)))
    fp32 = json.loads((ROOT / "results/machines/h100-sxm-80g.json").read_text(encoding="utf-8"))["fp32_flops_per_s"]
    page = (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    shares = flops / forward / fp32 * 1e6, 2 * flops / backward / fp32 * 1e6
    assert f"{100 * shares[0]:.0f} % of fp32's, their gradients {100 * shares[1]:.0f} %" in page


def test_25_networks_are_exported_with_two_releases():
    rows = [row for row in kept("export.jsonl") if row["exit_code"] == 0]
    assert all(len({row["network"] for row in rows if row["torch"] == torch}) == 25 for torch in ("2.11.0", "2.15.0"))
    assert max(row["cpu_seconds"] for row in rows) <= 34 and max(row["resident_bytes"] for row in rows) <= 2**30
    page = (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    assert "[25 networks](export.jsonl) export with torch 2.11 and 2.15, each within 34 s of CPU time and 1 GiB" in page
