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
    error = jsonschema.exceptions.best_match(validator.iter_errors(entry))
    while error.context:  # of several alternatives, takes the most deeply nested error
        error = max(error.context, key=lambda each: (len(each.absolute_path), each.validator_value != "null"))
    field_path = "".join(f"[{path_part}]" if isinstance(path_part, int) else f".{path_part}" for path_part in error.absolute_path).lstrip(".")
    message = " ".join(error.message.split())
    return f"{field_path or 'the ' + entry['kind']}: {message if len(message) <= MAX_MESSAGE_LENGTH else '... ' + message[4 - MAX_MESSAGE_LENGTH:]}"


@functools.lru_cache(maxsize=1)
def _validators():
    schema = json.loads((places.RESULTS / "record.schema.json").read_text(encoding="utf-8"))
    standard_validator = jsonschema.validators.validator_for(schema)
    minimum_validators = {name: _with_size_limit(standard_validator.VALIDATORS[name]) for name in ("minimum", "exclusiveMinimum")}
    type_checker = standard_validator.TYPE_CHECKER.redefine("integer", lambda _, value: _is_number(value, int) and abs(value) <= MAX_INTEGER)
    type_checker = type_checker.redefine("number", lambda _, value: _is_number(value, (int, float)) and _is_finite(value))
    validator_class = jsonschema.validators.extend(standard_validator, minimum_validators, type_checker=type_checker)
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
