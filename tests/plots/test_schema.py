"""The schema of records fits the records of these tests, and docs/records.md names all of its fields. What readers take: results.cases."""

import json

import conftest
import jsonschema
import pytest
import synthetic


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


def field_names(schema_part):
    if isinstance(schema_part, dict):
        properties = schema_part.get("properties")
        yield from properties if isinstance(properties, dict) else ()
    children = schema_part.values() if isinstance(schema_part, dict) else schema_part if isinstance(schema_part, list) else ()
    for child in children:
        yield from field_names(child)


def test_the_documentation_names_every_field(schema):
    text = (conftest.ROOT / "docs/records.md").read_text(encoding="utf-8")
    fields = set(field_names(schema.schema))
    assert len(fields) > 40 and [name for name in sorted(fields) if name not in text] == []
