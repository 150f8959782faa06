"""What sites take to install and to watch umbench: Spack recipe, container file, ReFrame check, citation; as far as that
can be tried without Spack, a container engine and a network."""

import os
import re
import shutil
import subprocess
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


class Spec:
    """As much of a concrete spec as the recipe asks for."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.variants = {"cuda_arch": types.SimpleNamespace(value="90")}

    def satisfies(self, what):
        assert what == "+cuda"
        return self.cuda

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=f"/opt/{name}")


@pytest.fixture
def recipe():
    """The class of the recipe, with what Spack would put around it, and what it said it needs."""
    said = []

    class When:
        def __init__(self, condition):
            said.append(("when", condition))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={value}"

        def define_from_variant(self, name, variant):
            return f"-D{name}={self.spec.satisfies('+' + variant)}"

    def directive(name):
        return lambda *arguments, **more: said.append((name, *arguments))

    names = {name: directive(name) for name in ("license", "version", "depends_on", "conflicts", "resource", "generator")}
    names |= {"CMakePackage": CMakePackage, "CudaPackage": type("CudaPackage", (), {}), "when": When, "join_path": os.path.join}
    text = (EXAMPLES / "spack/packages/umbench/package.py").read_text(encoding="utf-8")
    assert "from spack.package import *" in text
    exec(text.replace("from spack.package import *", ""), names)
    return names["Umbench"], said


@pytest.mark.parametrize("cuda", [False, True])
def test_the_spack_recipe_says_what_cmake_knows(recipe, cuda):
    made, said = recipe[0](), recipe[1]
    made.spec, made.run_tests, made.stage = Spec(cuda), False, types.SimpleNamespace(source_path="/source")
    arguments = made.cmake_args()
    assert f"-DUM_CUDA={cuda}" in arguments and "-DUM_TESTS=False" in arguments
    known = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "CMakeLists.txt", *ROOT.rglob("backends/**/CMakeLists.txt"),
                                                                     *(ROOT / "cmake").glob("*"), ROOT / "setup/common.sh"])
    for name in re.findall(r"-D(\w+)=", " ".join(arguments)):
        assert name.startswith("CMAKE_") or name in known, name
    needs = {each[1].split("@")[0] for each in said if each[0] == "depends_on"}
    assert {"cli11", "nlohmann-json", "fmt", "cmake", "cuda", "cudnn"} <= needs


def container_script():
    """What the file has bash run. OCI images, which podman makes, know no SHELL: `RUN` alone is read by sh."""
    text = (EXAMPLES / "container/Containerfile").read_text(encoding="utf-8")
    assert "SHELL" not in re.sub(r"(?m)^#.*", "", text)
    (script,) = re.findall(r"(?ms)^RUN bash -euo pipefail -c '([^']*)'$", text)
    return script.replace("\\\n", "\n")


def test_the_container_file_builds_by_what_there_is():
    text, script = (EXAMPLES / "container/Containerfile").read_text(encoding="utf-8"), container_script()
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    common = (ROOT / "setup/common.sh").read_text(encoding="utf-8")
    for name in ("install_system_packages", "find_cuda", "install_python_packages", "cuda_options", "configure_and_build"):
        assert name in script and f"{name}()" in common
    for path in re.findall(r"/umbench/(benchmarks/\S+\.json)", text):
        assert (ROOT / path).exists()


def test_the_container_s_script_configures_and_links(tmp_path):
    """The script runs with stand-ins for cmake and apt that only print their arguments."""
    script = re.sub(r"ln -s .*", 'echo "link $preset"', container_script())
    (tmp_path / "cmake").write_text('#!/bin/sh\necho "cmake $*"\n', encoding="utf-8")
    (tmp_path / "cmake").chmod(0o755)
    quiet = script.replace("install_system_packages;", "").replace("find_cuda;", "cuda_root='';")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", quiet], cwd=ROOT, capture_output=True, text=True, check=False,
                          env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ARCHITECTURES": "90"})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^cmake --preset cpu .*-DUM_TESTS=OFF", done.stdout, re.MULTILINE), done.stdout
    assert "--target umbench" in done.stdout and "link cpu" in done.stdout


def test_reframe_runs_the_check(tmp_path):
    program, umbench = shutil.which("reframe"), os.environ.get("UMBENCH")
    if not program:
        pytest.skip("ReFrame is not installed (pip install reframe-hpc)")
    if not umbench:
        pytest.skip("UMBENCH does not name a binary")
    done = subprocess.run([program, "-c", EXAMPLES / "reframe", "-r", "-S", f"umbench={os.path.relpath(umbench, tmp_path)}", "-n", "simulated",
                           "--prefix", tmp_path], capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)},
                          check=False)
    assert done.returncode == 0 and "P: iteration:" in done.stdout, done.stdout


def test_the_reframe_check_reads_what_umbench_prints(tmp_path):
    """The two patterns of the check are tried without ReFrame."""
    umbench = os.environ.get("UMBENCH")
    if not umbench:
        pytest.skip("UMBENCH does not name a binary")
    text = (EXAMPLES / "reframe/umbench_check.py").read_text(encoding="utf-8")
    cell = re.search(r'cell = variable\(str, value="([^"]*)"\)', text)[1]
    done = subprocess.run([umbench, "run", *cell.split(), "--backend", "sim:h200", "--out", tmp_path / "cell.jsonl"],
                          capture_output=True, text=True, check=False)
    for pattern in re.findall(r'r"(\^?[^"]*)"', text):
        assert re.search(pattern, done.stdout, re.MULTILINE), pattern


def test_the_citation_names_what_is_cited():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for field in ("cff-version:", "message:", "title:", "authors:", "license: Apache-2.0", "version:"):
        assert re.search(rf"(?m)^{field}", text), field
    version = re.search(r"(?m)^version: (\S+)", text)[1]
    assert f"VERSION {version}" in (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
