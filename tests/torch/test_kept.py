"""The figures of docs/torch.md are those of results/torch/fit_h100.jsonl."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_quotes_the_records():
    page = (ROOT / "docs/torch.md").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in (ROOT / "results/torch/fit_h100.jsonl").read_text(encoding="utf-8").splitlines()]
    cells = {(row["way"], row["value"] if row["way"] == "share" else row["ratio"]): row for row in rows if row["model"] == "resnet50"}
    for key in (("plain", None), ("fit", 1.5), ("share", 0.7), ("share", 0.5)):
        row = cells[key]
        gib = f"{row['peak'] / 2**30:.2f} GiB"
        assert any(gib in line and f"{row['ms']:.1f} ({row['ms_range'][0]:.1f})" in line for line in page.splitlines()), key
    fitted = cells["fit", 1.5]
    assert f"fitted into {fitted['value'] / 2**30:.2f} GiB" in page
    assert f"predicted {fitted['predicted']['peak'] / 2**30:.2f}" in page
    assert fitted["under_cap"] is True and fitted["fails_below"] is True
