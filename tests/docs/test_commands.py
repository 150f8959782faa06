"""Every command line of the pages runs as it is written, in a folder with the files that the page speaks of."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys

import conftest
import forked
import pytest

ROOT = conftest.ROOT
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
STARTS = ("umbench ", "benchmarks/", "python3 ", "build/", "./", "pip ")
NEEDS_TORCH = ("umbench export tests/", "umbench fit ")
NEEDS_GPU = ("cuda:", "build/cuda", "benchmarks/peers/pytorch.py", "OLD/umbench")
WHOLE_BUILDS = ("./quickstart", "./check")  # not run: they build everything
SLOW = ("umbench advise", "umbench report", "--strategy best ", "umbench validate", "plots/microbenchmarks.py")  # run by studies
SMALL = {"schema": 1, "name": "small", "grids": [{"network": "alexnet", "batch": [8, 16], "backend": "sim:h200", "iterations": 2,
                                                 "strategy": ["device", "managed", "swap_all"], "ratio": [0.5, 1.5], "timeline": True}]}


def has_gpu():
    return os.path.exists("/dev/nvidia0")


def has_torch():
    return all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))


def commands_in(text):
    """Commands in blocks of code, without comments and with continued lines joined."""
    block = re.sub(r"\\\n +", "", text)
    lines = re.findall(r"(?m)^    (\S.*)$", block)
    return [re.sub(r"\s+# .*$", "", line).strip() for line in lines if line.startswith(STARTS)]


def shown_output_by_command(text):
    """{command: [lines of its output that the page shows below it]}."""
    found, command = {}, None
    for line in re.sub(r"\\\n +", "", text).splitlines():
        if not line.startswith("    "):
            command = None
        elif line.strip().startswith(STARTS):
            command = re.sub(r"\s+# .*$", "", line).strip()
        elif command:
            found.setdefault(command, []).append(line)
    return found


def commands_in_tables(text):
    """Whole commands that stand inside of a table."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [found for row in rows for found in re.findall(r"`(umbench (?:sweep|run|plan|ablate|tune|advise) [^`]* --[^`]*)`", row)]


@pytest.fixture(scope="module")
def umbench():
    return forked.program()


@pytest.fixture(scope="module")
def prepared_folder(umbench, tmp_path_factory):
    """A small record file and its sweep, which stand for all that pages call SPEC.json, BASE and so on."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "SPEC.json").write_text(json.dumps(SMALL), encoding="utf-8")
    for name, more in [("FILE.jsonl", ())] + [(f"part{number}.jsonl", ("--shard", f"{number}/4")) for number in (1, 2, 3, 4)]:
        done = subprocess.run([umbench, "sweep", folder / "SPEC.json", "--out", folder / name, *more], capture_output=True,
                              text=True, check=False)
        assert done.returncode <= 1, done.stderr  # 1 where a cell does not fit
    return folder


@pytest.fixture
def run_line(umbench, prepared_folder, tmp_path):
    """Runs a line of a page as somebody would in the repository's folder, with nothing of it written."""
    for name in ("benchmarks", "plots", "python", "results", "docs", "README.md", "examples", "tests"):
        if (ROOT / name).exists():
            (tmp_path / name).symlink_to(ROOT / name)
    for name in ("BASE", "HEAD", "FILE.jsonl"):
        (tmp_path / name).symlink_to(prepared_folder / "FILE.jsonl")
    (tmp_path / "here.json").symlink_to(ROOT / "results/microbenchmarks/h200.json")
    (tmp_path / "SPEC.json").symlink_to(prepared_folder / "SPEC.json")
    (tmp_path / "train.py").touch()
    (tmp_path / "my_program").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "my_program").chmod(0o755)
    write_blocks((ROOT / "docs/hints.md").read_text(encoding="utf-8"), tmp_path)  # it shows mine.json
    for number in (2, 3, 4):
        (tmp_path / f"part{number}.jsonl").write_bytes((prepared_folder / f"part{number}.jsonl").read_bytes())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/umbench").symlink_to(umbench)
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "UMBENCH_HOME": str(ROOT)}

    def run(line):
        words = line if "*" in line else shlex.split(line)
        if line.startswith("python3 "):  # the Python of this test has the libraries
            words = [sys.executable, *shlex.split(line)[1:]]
        return subprocess.run(words, shell="*" in line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    run.folder = tmp_path
    return run


def write_blocks(text, folder):
    """Writes each JSON block of a page into the file that the page's commands name."""
    for block in re.findall(r"(?ms)^    \{\n.*?^    \}$", text):
        kind = json.loads(block)
        name = f"{kind.get('name', 'block')}.json"
        (folder / name).write_text(block, encoding="utf-8")


def shortened_command(line):
    """The line with less work, so that it takes a moment; None if it cannot be shortened."""
    if any(word in line for word in SLOW):
        return None
    line = line.replace("benchmarks/sweeps/small.json --out", "SPEC.json --out").replace("benchmarks/sweeps/small.json --shard", "SPEC.json --shard")
    return f"{line} --trials 5" if line.startswith("umbench tune ") and "--trials" not in line else line


def run_commands_of_page(run_line, page, lines):
    write_blocks(page.read_text(encoding="utf-8"), run_line.folder)
    ran = skipped = 0
    for line in lines:
        if line.startswith(WHOLE_BUILDS):
            assert (ROOT / shlex.split(line)[0]).exists(), line
        elif any(word in line for word in NEEDS_GPU) and not has_gpu() or line.startswith(NEEDS_TORCH) and not has_torch():
            skipped += 1
        elif not (line.startswith("umbench env --machine") and not (run_line.folder / "my-gpu.json").exists()) and not (
                line.startswith(("umbench compare ab/", "umbench compare aa/")) and not has_gpu()):
            done = run_line(line)
            assert done.returncode in (0, 1, 4), f"{line}\n{done.stdout[-300:]}{done.stderr[-600:]}"
            if done.returncode:  # of cells that do not fit
                assert "Traceback" not in done.stderr and line.startswith(("umbench sweep", "umbench run", "umbench ablate")), (
                    f"{line}\n{done.stderr[-600:]}")
            ran += 1
    if not ran and skipped:
        pytest.skip(f"{skipped} commands need a GPU or PyTorch")


WITH_COMMANDS = pytest.mark.parametrize("page", [page for page in PAGES if commands_in(page.read_text(encoding="utf-8"))],
                                        ids=lambda page: page.stem)


@pytest.mark.study
@WITH_COMMANDS
def test_commands_run_as_written(run_line, page):
    run_commands_of_page(run_line, page, commands_in(page.read_text(encoding="utf-8")))


@pytest.mark.study
def test_output_of_commands_is_as_shown(run_line):
    lines = shown_output_by_command((ROOT / "docs/questions.md").read_text(encoding="utf-8"))
    assert len(lines) == 2
    for command, wanted in lines.items():
        told = " ".join(run_line(command).stdout.split())
        for line in wanted:
            assert " ".join(line.split()) in told, f"{command}\n{line}"


@WITH_COMMANDS
def test_commands_run(run_line, page):
    run_commands_of_page(run_line, page, [line for line in map(shortened_command, commands_in(page.read_text(encoding="utf-8"))) if line])


@pytest.mark.parametrize("page", [page for page in PAGES if commands_in_tables(page.read_text(encoding="utf-8"))], ids=lambda page: page.stem)
def test_studies_of_tables_are_there(run_line, page):
    """Studies take long, so their cells are only listed, which shows that the command line is right."""
    for line in commands_in_tables(page.read_text(encoding="utf-8")):
        words = shlex.split(line)
        done = run_line(f"{line} --list" if words[1] == "sweep" else f"umbench {words[1]} --help")
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert words[1] == "sweep" or all(word in done.stdout for word in words if word.startswith("--")), line


def test_every_command_stands_in_a_page(umbench):
    """The tests above run what pages show."""
    shown = subprocess.run([umbench, "--help"], capture_output=True, text=True, check=True).stdout.split("Subcommands:")[1]
    named = set(re.findall(r"(?m)^  ([a-z]+) ", shown))
    assert len(named) > 15
    written = {line.split()[1] for page in PAGES for line in commands_in(page.read_text(encoding="utf-8")) if line.startswith("umbench ")}
    assert named <= written, named - written
