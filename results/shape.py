"""Holds a line of a record file to record.schema.json, so that what reads it meets no surprise.

By the keywords below alone: what is surplus, or ill at odds with another field, harms no reader. Tests hold what
umbench writes to the whole schema, by a library that its users need not have.
"""

import json
from collections import namedtuple
from functools import lru_cache
from pathlib import Path

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"object": "an object", "array": "a list", "string": "a text", "boolean": "true or false", "null": "null",
         "integer": "a whole number", "number": "a number"}
MOST = 2**63 - 1  # umbench writes and reads nothing above


@lru_cache(maxsize=1)
def _definitions():
    path = Path(__file__).resolve().parent / "record.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))["$defs"]


def misfit(entry):
    """Of an entry whose `kind` is one of the schema: "samples_ns[2] wants a whole number", or None."""
    return _misfit(entry, _definitions()[entry["kind"]], Place("", f"the {entry['kind']}"))


class Place(namedtuple("Place", "path name")):
    def field(self, name):
        return Place.of(f"{self.path}.{name}" if self.path else name)

    def item(self, number):
        return Place.of(f"{self.path}[{number}]")

    @staticmethod
    def of(path):
        return Place(path, path)


def _misfit(value, schema, at):
    if "$ref" in schema:
        schema = _definitions()[schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        found = [_misfit(value, choice, at) for choice in schema["anyOf"]]
        return None if None in found else found[0]
    complaint = _complaint(value, schema)
    return f"{at.name} {complaint}" if complaint else _misfit_of_parts(value, schema, at)


def _complaint(value, schema):
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return f"wants {' or '.join(WORDS[kind] for kind in kinds)}"
    if "const" in schema and value != schema["const"]:
        return f"wants {schema['const']}"
    if "enum" in schema and not any(value == known and type(value) is type(known) for known in schema["enum"]):
        return f"wants one of {', '.join(map(str, schema['enum']))}"
    if _is(value, "number") and (value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", -MOST)):
        return f"is too small: {value}"
    missing = [name for name in schema.get("required", ()) if isinstance(value, dict) and name not in value]
    return f"lacks '{missing[0]}'" if missing else None


def _is(value, kind):
    if kind not in ("integer", "number"):
        return isinstance(value, KINDS[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= MOST and (kind == "number" or value == int(value))


def _misfit_of_parts(value, schema, at):
    parts = []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        parts = [(part, known.get(name, others), at.field(name)) for name, part in value.items()]
    elif isinstance(value, list):
        parts = [(part, schema.get("items"), at.item(number)) for number, part in enumerate(value)]
    found = (_misfit(part, rule, place) for part, rule, place in parts if isinstance(rule, dict))
    return next((text for text in found if text), None)
