"""Record files of umbench, their statistics, figures and reports (docs/records.md names the fields of a record).

    import umbench
    cells = umbench.read("small.jsonl")          # pandas: one row a cell, with median_ns and slowdown
    cells.pivot_table(index="strategy", columns="ratio", values="slowdown")

`umbench.load.read` gives the records as dictionaries and does not need pandas.
"""

from pathlib import Path

_top_folder = Path(__file__).resolve().parents[2]
if (_top_folder / "plots/common.py").is_file():  # in a checkout or an install tree umbench.plots is a folder beside python/
    __path__.append(str(_top_folder))

from umbench.frames import environments, read, samples  # noqa: E402
from umbench.load import BadInput, TooLittle  # noqa: E402

__all__ = ["BadInput", "TooLittle", "environments", "read", "samples"]
