"""An install tree: find_package(umbench) from a project of one's own, and the program with its scripts."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build_folder():
    folder = os.environ.get("UMBENCH_BUILD")
    if not folder or not os.environ.get("UMBENCH"):
        pytest.skip("UMBENCH_BUILD and UMBENCH do not name a build folder and its program")
    return Path(folder).resolve()


def run_checked(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done.stdout


def install(build_folder, component, folder):
    run_checked("cmake", "--install", build_folder, "--component", component, "--prefix", folder)
    return folder


def shared_settings(build_folder):
    """What a project must share with the libraries' build."""
    cache = (build_folder / "CMakeCache.txt").read_text(encoding="utf-8")
    generator = re.search(r"(?m)^CMAKE_GENERATOR:INTERNAL=(.*)$", cache)[1]  # the standard one, make, may be missing
    return [f"-D{name}={re.search(f'(?m)^{name}:[A-Z]+=(.*)$', cache)[1]}"
            for name in ("CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "CMAKE_BUILD_TYPE", "CMAKE_MAKE_PROGRAM")] + ["-G", generator]


def test_it_is_configured_without_its_tests(build_folder, tmp_path):
    run_checked("cmake", "-S", ROOT, "-B", tmp_path / "build", "-DUM_TESTS=OFF", "-DUM_CUDA=OFF", *shared_settings(build_folder))


def test_a_project_of_ones_own_builds_on_the_libraries(build_folder, tmp_path):
    prefix = install(build_folder, "library", tmp_path / "prefix")
    assert not (prefix / "bin").exists()
    run_checked("cmake", "-S", ROOT / "examples/library", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *shared_settings(build_folder))
    run_checked("cmake", "--build", tmp_path / "build")
    shown = run_checked(tmp_path / "build/cheapest")
    times = {name: float(time) for name, time in re.findall(r"(?m)^(\w+) +(\S+) ms$", shown)}
    assert re.search(r"(?m)^device +the device arena needs|^device .* budget", shown), shown
    assert times["best"] <= min(times.values()) * 1.001 and "quarters" in times, shown


def test_the_planner_of_the_page_plans(build_folder, tmp_path):
    """The planner of docs/contributing/adding.md works in the place of the example's own planner."""
    prefix = install(build_folder, "library", tmp_path / "prefix")
    (planner,) = re.findall(r"(?s)```cpp\n(.*?)```", (ROOT / "docs/contributing/adding.md").read_text(encoding="utf-8"))
    example = (ROOT / "examples/library/cheapest.cpp").read_text(encoding="utf-8")
    (tmp_path / "cheapest.cpp").write_text(planner + example.replace("quarters(p))", "um::plan_swap_everything(p))")
                                           .replace("needed / 2", "needed / 10 * 8"), encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text((ROOT / "examples/library/CMakeLists.txt").read_text(encoding="utf-8"), encoding="utf-8")
    run_checked("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *shared_settings(build_folder))
    run_checked("cmake", "--build", tmp_path / "build")
    assert float(re.search(r"(?m)^quarters +(\S+) ms$", run_checked(tmp_path / "build/cheapest"))[1]) > 0


def test_the_program_finds_its_scripts(build_folder, tmp_path):
    prefix = install(build_folder, "program", tmp_path / "prefix")
    environment = {name: value for name, value in os.environ.items() if name != "UMBENCH_HOME"}
    umbench = prefix / "bin/umbench"
    run_checked(umbench, "run", "--network", "conv", "--strategy", "device", "--backend", "sim:h200", "--out", tmp_path / "one.jsonl", env=environment)
    assert run_checked(umbench, "export", tmp_path / "one.jsonl", "--format", "csv", env=environment).startswith("key,network,")
    for command in ("compare", "report", "plot", "reproduce", "interleave"):
        assert "--help" in run_checked(umbench, command, "--help", env=environment)
