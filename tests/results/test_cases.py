"""All readers of record files accept and refuse the files of cases.py as expected."""

import json
import re
import subprocess

import cases
import conftest
import jsonschema
import pytest
from umbench import load


@pytest.fixture(scope="module")
def cases_and_paths(tmp_path_factory):
    """[(Case, path), ...]"""
    folder = tmp_path_factory.mktemp("cases")
    return [(case, folder / case.name) for case in cases.write_cases(folder)]


def title(case):
    return re.sub(r"^\d+_(.*)\.jsonl$", r"\1", case.name)


def test_written_cases_match_their_index(cases_and_paths):
    assert len(cases_and_paths) > 200 and len({title(case) for case, _ in cases_and_paths}) == len(cases_and_paths)
    index = json.loads((cases_and_paths[0][1].parent / "index.json").read_text(encoding="utf-8"))
    assert [case["file"] for case in index["cases"]] == [path.name for _, path in cases_and_paths]
    assert {case["expect"] for case in index["cases"]} == {"accept", "refuse", "torn"}


def test_the_python_reader_accepts_and_refuses_the_cases(cases_and_paths):
    for case, path in cases_and_paths:
        warned = []
        try:
            _, records = load.read(path, warned.append)
            found = ("torn" if warned else "accept", len(records))
        except load.BadInput as refusal:
            found = ("refuse", None)
            assert str(refusal).startswith(f"{path}:") and "\n" not in str(refusal)
        assert found == (case.expect, case.records), f"{case.name}: {case.why}"


def test_the_schema_agrees(cases_and_paths):
    """jsonschema accepts the same files if all lines are complete JSON. JSON Schema cannot express three rules: the
    order of lines, that 5.0 is no integer, and the limit of 63 bits."""
    schema = json.loads((conftest.ROOT / "results/record.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    own = {"no_environment", "record_before_environment", "sample_5.0", "sample_1e3", "sample_too_large", "ratio_1e308",
           "number_of_5000_digits", "schema_1.0", "half_a_surrogate", "other_half_of_a_surrogate", "field_twice",
           "field_twice_alike", "inner_field_twice", "nan", "infinity", "byte_order_mark"}
    judged = 0
    for case, path in cases_and_paths:
        try:
            entries = [json.loads(line) for line in case.data.decode("utf-8").split("\n") if line.strip()]
        except (ValueError, RecursionError):
            continue
        if b"\n\n" in case.data or case.data.endswith(b" \n") or case.data == b"\n" or title(case) in own:
            continue
        fits = all(validator.is_valid(entry) for entry in entries)
        assert fits == (case.expect == "accept"), case.name
        judged += 1
    assert judged > 150


def test_the_cpp_reader_accepts_and_refuses_the_cases(umbench, cases_and_paths, tmp_path):
    """The reader in C++ is tried by `merge`, which refuses files without records since there is nothing to merge."""
    for number, (case, path) in enumerate(cases_and_paths):
        out = tmp_path / f"{number}.jsonl"
        done = subprocess.run([umbench.program, "merge", path, "--out", out], capture_output=True, check=False)
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if case.expect == "refuse":
            assert done.returncode == 2 and path.name in said and "no record;" not in said, f"{case.name}: {said}"
        elif case.records == 0:
            assert done.returncode == 2 and "the parts hold no record" in said, f"{case.name}: {said}"
        else:
            assert done.returncode == 0, f"{case.name}: {said}"
            assert out.read_bytes().count(b'{"kind":"record"') == case.records, case.name
        assert ("torn" in said.replace(path.name, "")) == (case.expect == "torn"), f"{case.name}: {said}"
