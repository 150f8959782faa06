"""Holds a line of a record file to record.schema.json, so that what reads it meets no surprise: the keywords that the
schema uses, of JSON Schema 2020-12. Tests hold this to a library that its users need not have.

Stricter than JSON Schema in numbers: an integer has no fraction (not even 5.0), and none but a plain number without
bounds of its own goes beyond 2^63.
"""

import json
import math
import re
from functools import lru_cache

from umbench import places

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"object": "an object", "array": "a list", "string": "a text", "boolean": "true or false", "null": "null",
         "integer": "a whole number", "number": "a number"}
MOST = 2**63 - 1  # umbench writes and reads nothing above


@lru_cache(maxsize=1)
def _definitions():
    path = places.RESULTS / "record.schema.json"
    return json.loads(path.read_text(encoding="utf-8"))["$defs"]


def misfit(entry):
    """Of an entry whose `kind` is one of the schema: "samples_ns[2] wants a whole number", or None."""
    found = _misfit(entry, _definitions()[entry["kind"]])
    if found is None:
        return None
    complaint, *path = found
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(path)).lstrip(".")
    return f"{where or 'the ' + entry['kind']} {complaint}"


# What is wrong is a complaint and the way to it, innermost first; None where nothing is.

def _misfit(value, schema):
    if "$ref" in schema:
        schema = _definitions()[schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        found = [_misfit(value, choice) for choice in schema["anyOf"]]
        return None if None in found else max(found, key=len)
    complaint = _complaint(value, schema)
    if complaint:
        return (complaint,)
    if isinstance(value, dict):
        return _misfit_of_object(value, schema)
    if isinstance(value, list) and "items" in schema:
        return _first_misfit(enumerate(value), schema["items"])
    return None


def _complaint(value, schema):
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind, schema) for kind in kinds):
        return f"wants {' or '.join(WORDS[kind] for kind in kinds)}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"wants {_shown(schema['const'])}"
    if "enum" in schema and not any(_same(value, known) for known in schema["enum"]):
        return f"wants one of {', '.join(map(_shown, schema['enum']))}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]):
            return f"is too small: {value}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0) or ("pattern" in schema and not re.search(schema["pattern"], value)
                                                       or "pattern" in schema and value.endswith("\n")):
            return f"is {json.dumps(value[:40])}, which does not fit {schema.get('pattern', 'a text')}"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        return "wants at least one element" if schema["minItems"] == 1 else f"wants {schema['minItems']} elements"
    return None


def _is(value, kind, schema):
    if kind not in ("integer", "number"):
        return isinstance(value, KINDS[kind])
    if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)):
        return False
    bounded = kind == "integer" or "minimum" in schema or "exclusiveMinimum" in schema
    return abs(value) <= MOST if bounded else math.isfinite(value)


def _same(value, known):
    return value == known and type(value) is type(known)


def _shown(known):
    return known if isinstance(known, str) else json.dumps(known)


def _misfit_of_object(value, schema):
    for name in schema.get("required", ()):
        if name not in value:
            return (f"lacks '{name}'",)
    for name, others in schema.get("dependentRequired", {}).items():
        missing = [other for other in others if name in value and other not in value]
        if missing:
            return (f"has '{name}' but lacks '{missing[0]}'",)
    known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, part in value.items():
        rule = known.get(name, more)
        if rule is False:
            return (f"has the unknown field {json.dumps(name[:40])}",)
        found = _misfit(part, rule) if rule is not True else None
        if found:
            return (*found, name)
    return next(filter(None, (_misfit_of_case(value, case) for case in schema.get("allOf", ()))), None)


def _misfit_of_case(value, case):
    fits = _fits(value, case["if"])
    rule = case.get("then" if fits else "else")
    return _misfit(value, rule) if rule else None


def _fits(value, condition):
    if "not" in condition:
        return not _fits(value, condition["not"])
    return _misfit(value, condition) is None


def _first_misfit(parts, rule):
    for step, part in parts:
        found = _misfit(part, rule)
        if found:
            return (*found, step)
    return None
