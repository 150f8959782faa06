"""The figures of README.md and docs/torch.md are those kept in results/torch."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def kept(name):
    return [json.loads(line) for line in (ROOT / "results/torch" / name).read_text(encoding="utf-8").splitlines()]


def one(rows, model, way, ratio=None, share=None):
    (row,) = [row for row in rows if (row["model"], row["way"]) == (model, way)
              and (row["ratio"] == ratio if way == "fit" else row["value"] == share)]
    return row


def test_the_table_quotes_the_records():
    page = (ROOT / "results/torch/README.md").read_text(encoding="utf-8")
    fitted, stock = kept("fit_h100.jsonl"), kept("stock_h100.jsonl")
    rows = [one(stock, "resnet50", "share", share=share) for share in (0.7, 0.5)]
    rows += [one(fitted, model, "plain") for model in ("resnet50", "gpt2_small", "vit_b16")]
    rows += [row for row in fitted if row["way"] == "fit"]
    for row in rows:
        words = [f"{row['peak'] / 2**30:.2f} GiB", f"{row['ms']:.1f} ({row['ms_range'][0]:.1f})"]
        if row["way"] == "fit":
            words += [f"| {row['value'] / 2**30:.2f} GiB", f"predicted {row['predicted']['peak'] / 2**30:.2f}",
                      "yes |" if row["under_cap"] is True else f"no, {row['under_cap']} steps |"]
            assert row["fails_below"] is True
        assert any(all(word in line for word in words) for line in page.splitlines()), words
    slow = one(fitted, "resnet50", "fit", 2)
    assert f"was to take {slow['predicted']['ms']:.1f} ms" in page


def test_the_pages_quote_the_records():
    fitted = kept("fit_h100.jsonl")
    slower = {(model, ratio): f"{one(fitted, model, 'fit', ratio)['ms'] / one(fitted, model, 'plain')['ms']:.2f}"
              for model, ratio in (("resnet50", 1.5), ("gpt2_small", 1.5), ("vit_b16", 1.5), ("resnet50", 2), ("gpt2_small", 2))}
    assert f"ResNet-50 took {slower['resnet50', 1.5]} times as long" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = " ".join((ROOT / "docs/torch.md").read_text(encoding="utf-8").split())
    assert f"take {slower['resnet50', 1.5]}, {slower['gpt2_small', 1.5]} and {slower['vit_b16', 1.5]} times as long" in page
    assert f"ResNet-50 takes {slower['resnet50', 2]} times and GPT-2 {slower['gpt2_small', 2]} times" in page
