"""`pip install ./python`: the package installed apart from the repository works as it does in a checkout."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from umbench import load  # noqa: E402

KEPT = ROOT / "results/study/best_h200.jsonl"


def skip_without(*module_names):
    """Skips where one is missing. They are looked up, not imported: setuptools cannot be imported after distutils."""
    for module in module_names:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (Debian: python3-{module})")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Folder of the installed package, built from a copy, without a network."""
    skip_without("setuptools", "wheel", "pip")
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "python", folder / "source/python")
    shutil.copytree(ROOT / "plots", folder / "source/plots")
    shutil.copytree(ROOT / "results", folder / "source/results", ignore=shutil.ignore_patterns("*.jsonl", "*.svg", "*.png"))
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target",
                           folder / "site", folder / "source/python"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def run_python(installed, code):
    return subprocess.run([sys.executable, "-c", code], cwd=installed, env=os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])},
                          capture_output=True, text=True, check=False)


def test_it_holds_the_package_with_its_drawing_part_and_data(installed):
    names = lambda folder, kind: {str(path.relative_to(folder)) for path in folder.rglob(kind)}  # noqa: E731
    assert names(installed / "umbench/plots", "*.py") == names(ROOT / "plots", "*.py")
    assert names(ROOT / "python/umbench", "*.py") <= names(installed / "umbench", "*.py")
    data = names(installed / "umbench/results", "*")
    assert {"record.schema.json", "machines/h200.json", "papers/vdnn.json"} <= data and not any(name.endswith(".jsonl") for name in data)


def test_versions_agree():
    """The program, the package, the citation and the list of changes have one version."""
    version = re.search(r"project\(umbench VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    for file, line in (("python/pyproject.toml", f'version = "{version}"'), ("CITATION.cff", f"version: {version}"), ("CHANGELOG.md", f"## {version}")):
        assert line in (ROOT / file).read_text(encoding="utf-8").splitlines(), file
    shown = subprocess.run([os.environ["UMBENCH"], "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(rf"umbench {re.escape(version)}\+\S+, built by .+, backends: sim.*\n", shown), shown


@pytest.mark.parametrize("arguments", [("compare", KEPT, KEPT), ("plots", "table", KEPT), ("export", KEPT, "--format", "csv")])
def test_its_modules_start_apart_from_the_repository(installed, arguments):
    module, *rest = map(str, arguments)
    done = subprocess.run([sys.executable, "-m", f"umbench.{module}", *rest], cwd=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len(done.stdout) > 200, done.stderr


def test_a_folder_without_the_checkout_is_refused_in_one_line(tmp_path):
    skip_without("setuptools")
    shutil.copytree(ROOT / "python", tmp_path / "python")
    done = subprocess.run([sys.executable, "setup.py", "--name"], cwd=tmp_path / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "umbench: ../plots is missing; install from a whole checkout: pip install CHECKOUT/python\n"


def test_it_reads_without_the_repository_and_without_pandas(installed):
    done = run_python(installed, f"""
import sys
sys.modules["pandas"] = None
import umbench
print(len(umbench.load.read({str(KEPT)!r})[1]))
try:
    umbench.read({str(KEPT)!r})
except ImportError as missing:
    print(missing)
""")
    count, missing = done.stdout.splitlines()
    assert int(count) == len(load.read(KEPT)[1]) and "pip install pandas" in missing, done.stderr


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed (Debian: python3-pandas)")
def test_cells_as_a_data_frame(installed):
    done = run_python(installed, f"""
import umbench
cells = umbench.read({str(KEPT)!r})
best = cells[(cells.strategy == "best") & (cells.network == "resnet50")]
print(len(cells), *(f"{{each:.4f}}" for each in sorted(best.slowdown)), int(best.samples.iloc[0]))
print(best["memory.budget_bytes"].notna().all(), best["counters.last.faults"].notna().any() is not None)
print(len(umbench.samples({str(KEPT)!r})), umbench.environments({str(KEPT)!r})["gpu.name"].iloc[0])
try:
    umbench.read("none.jsonl")
except umbench.BadInput as refusal:
    print(refusal)
""")
    assert done.returncode == 0, done.stderr
    records = load.read(KEPT)[1]
    base = load.baseline_ns_by_group(records)
    expected = sorted(load.steady_ns(r) / load.baseline_ns_of_group(load.group_of(r), base) for r in records
                      if r["strategy"] == "best" and r["network"] == "resnet50")
    first, second, third, last = done.stdout.splitlines()
    assert first == f"{len(records)} {' '.join(f'{each:.4f}' for each in expected)} 10"
    assert second == "True True" and third == f"{sum(len(r['samples_ns']) for r in records)} NVIDIA H200"
    assert last == "none.jsonl: No such file or directory"
