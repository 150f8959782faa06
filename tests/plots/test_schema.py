"""The schema file describes what the tool writes and what the loader reads."""

import json

import conftest
import jsonschema
import pytest
import synthetic
from umbench import load


@pytest.fixture(scope="module")
def schema():
    with open(conftest.ROOT / "results/record.schema.json", encoding="utf-8") as file:
        text = json.load(file)
    kind = jsonschema.validators.validator_for(text, default=None)
    kind.check_schema(text)
    return kind(text)


@pytest.mark.parametrize("entry", [synthetic.record(), synthetic.record(outcome="infeasible"),
                                   synthetic.record(timeline=synthetic.timeline()),
                                   synthetic.record(fusion="lean", precision="bf16", memory_order="nhwc"),
                                   synthetic.record(backend="cuda:0", engines=[{
                                       "op": "conv1", "engine": "made up", "time_ns": 1, "workspace_bytes": 2,
                                       "flops": 3, "bytes": 4, "parts": 5}])])
def test_the_records_of_these_tests_are_of_the_schema(schema, entry):
    schema.validate(entry)


@pytest.mark.parametrize("change", [{"outcome": "fine"}, {"samples_ns": ["1"]}, {"ratio": None}, {"schema": 2},
                                    {"mode": "real"}, {"kind": "note"}, {"fusion": "fussed"}, {"precision": "fp16"},
                                    {"memory_order": "hwcn"}, {"memory_order": None}, {"launch": "streams"},
                                    {"launch": "simulated"}])
def test_the_schema_refuses_what_is_not_a_record(schema, change):
    assert not schema.is_valid(synthetic.record() | change)


@pytest.mark.parametrize("path", sorted((conftest.ROOT / "results/measured").glob("h200_capped*.jsonl")), ids=lambda p: p.stem)
def test_kept_measurements_are_of_the_schema_and_readable(schema, path):
    for line in path.read_text(encoding="utf-8").splitlines():
        schema.validate(json.loads(line))
    _, records = load.read(path)
    assert records and all(load.group_of(record).memory_order in ("nchw", "nhwc") for record in records)


def test_what_the_tool_writes_is_of_the_schema_and_readable(schema, umbench, tmp_path):
    path = tmp_path / "run.jsonl"
    for strategy in ("device", "managed"):
        done = umbench("run", "--network", "alexnet", "--batch", "2", "--strategy", strategy, "--ratio", "0.9",
                       "--backend", "sim:h200", "--out", path)
        assert done.returncode == 0, done.stderr
    for line in path.read_text(encoding="utf-8").splitlines():
        schema.validate(json.loads(line))
    _, records = load.read(path)
    assert [record["strategy"] for record in records] == ["device", "managed"]
    assert all(record["simulated"] for record in records)
    assert load.baseline_ns(load.group_of(records[1]), records) == load.steady_ns(records[0])


def field_names(part):
    if isinstance(part, dict):
        properties = part.get("properties")
        yield from properties if isinstance(properties, dict) else ()
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for child in children:
        yield from field_names(child)


def test_the_documentation_names_every_field(schema):
    text = (conftest.ROOT / "docs/records.md").read_text(encoding="utf-8")
    fields = set(field_names(schema.schema))
    assert len(fields) > 40 and [name for name in sorted(fields) if name not in text] == []
