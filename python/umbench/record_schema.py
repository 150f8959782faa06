"""Validates a line of a record file against results/record.schema.json with jsonschema.

Stricter than JSON Schema in numbers, as umbench itself reads them: an integer has no fraction (not even 5.0), and only a
number without bounds may exceed 2^63.
"""

import functools
import json
import math

from umbench import dependencies, places

dependencies.require("jsonschema")

import jsonschema  # noqa: E402

MAX_INTEGER = 2**63 - 1
MAX_MESSAGE_LENGTH = 160


def validation_error(entry):
    """The error of an entry whose `kind` the schema has, such as "samples_ns[2]: 'x' is not of type 'integer'", or None."""
    validator = _validators()[entry["kind"]]
    if validator.is_valid(entry):
        return None
    found = jsonschema.exceptions.best_match(validator.iter_errors(entry))
    while found.context:  # of several alternatives, takes the most deeply nested error
        found = max(found.context, key=lambda error: (len(error.absolute_path), error.validator_value != "null"))
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.absolute_path).lstrip(".")
    message = " ".join(found.message.split())
    return f"{path or 'the ' + entry['kind']}: {message if len(message) <= MAX_MESSAGE_LENGTH else '... ' + message[4 - MAX_MESSAGE_LENGTH:]}"


@functools.lru_cache(maxsize=1)
def _validators():
    schema = json.loads((places.RESULTS / "record.schema.json").read_text(encoding="utf-8"))
    standard = jsonschema.validators.validator_for(schema)
    minimum_validators = {name: _with_size_limit(standard.VALIDATORS[name]) for name in ("minimum", "exclusiveMinimum")}
    types = standard.TYPE_CHECKER.redefine("integer", lambda _, value: _is_number(value, int) and abs(value) <= MAX_INTEGER)
    types = types.redefine("number", lambda _, value: _is_number(value, (int, float)) and _is_finite(value))
    validator_class = jsonschema.validators.extend(standard, minimum_validators, type_checker=types)
    return {name: validator_class({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}) for name in ("environment", "record")}


def _with_size_limit(keyword_validator):
    """Returns the validator function `keyword_validator` of a keyword, extended to refuse values of more than MAX_INTEGER."""
    def check_minimum_and_size(validator, minimum, value, schema):
        if _is_number(value, (int, float)) and _is_finite(value) and abs(value) > MAX_INTEGER:
            yield jsonschema.ValidationError(f"{value} is too large")
        yield from keyword_validator(validator, minimum, value, schema)

    return check_minimum_and_size


def _is_number(value, types):
    return isinstance(value, types) and not isinstance(value, bool)


def _is_finite(value):
    return isinstance(value, int) or math.isfinite(value)
