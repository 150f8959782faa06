"""Published in-core times differ by at most a fifth from simulated ones, or the difference is explained."""

import json
import re

from conftest import ROOT

ROW = re.compile(r"\| (\S+) \| (.+) \| ([\d.]+) ms \| ([\d.]+) ms \| .+ \| (.+) \|")


def test_in_core_times_are_within_a_fifth_or_explained(umbench, tmp_path):
    everything = json.loads((ROOT / "results/validation/published.json").read_text(encoding="utf-8"))
    in_core = [f for f in everything["figures"] if f["unit"] == "ms"]
    file = tmp_path / "in_core.json"
    file.write_text(json.dumps(everything | {"figures": in_core}), encoding="utf-8")
    said = umbench("validate", file).stdout
    rows = ROW.findall(said)
    assert len(rows) == len(in_core) >= 43
    off = {name: verdict for _, name, known, simulated, verdict in rows if not 5 / 6 <= float(simulated) / float(known) <= 1.2}
    assert len(off) <= 2 and all("miss: " in verdict for verdict in off.values()), off


def cell_names_of(claim):
    if "order" in claim:
        return claim["order"]
    (kind, cells), = claim["value"].items()
    return [cell for _, cell in cells] if kind == "free_share" else [cells] if isinstance(cells, str) else cells


def test_the_page_of_papers_counts_the_measured_cells_of_claims():
    folder = ROOT / "results/papers"
    measured = claimed = 0
    for file in folder.glob("*.json"):
        cells = {cell for claim in json.loads(file.read_text(encoding="utf-8"))["claims"] for cell in cell_names_of(claim)}
        claimed += len(cells)
        lines = (folder / f"measured/{file.stem}.jsonl").read_text(encoding="utf-8").splitlines()
        kept = {json.loads(line).get("key") for line in lines}
        keys = json.loads((folder / f"measured/{file.stem}.cells.json").read_text(encoding="utf-8"))
        assert kept >= set(keys.values()), file
        measured += len(cells & keys.keys())
    assert f"**measured** on H100s, {measured} of {claimed} cells" in (folder / "README.md").read_text(encoding="utf-8")
