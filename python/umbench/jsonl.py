"""Parses the bytes of a record file into its entries (docs/records.md). A line that cannot be read is an error that names its number. Only
an incomplete last line, which a crash while appending leaves, is dropped."""

import json
from collections import namedtuple

OPENING = '{"kind":"environment"'  # the text with which the first line of every record file begins

# `entries`: [(number of the line, entry), ...]; `torn`: the number of the last line if that is torn.
Lines = namedtuple("Lines", "entries torn")


class UnreadableLine(Exception):
    """A line cannot be read. The message begins with its number."""


def parse(data: bytes):
    """Parses the bytes of a file to Lines. Throws UnreadableLine."""
    lines = data.split(b"\n")
    last_line, torn_line_number = lines.pop(), None
    entries = [(line_number, _parse_numbered_line(line, line_number)) for line_number, line in enumerate(lines, start=1)]
    if last_line:
        line_number = len(lines) + 1
        try:
            entries.append((line_number, _parse_line(last_line)))
        except ValueError as error:
            if not entries and not _may_begin_a_record_file(last_line):
                raise UnreadableLine(f"{line_number}: {error}; no record file of umbench") from error
            torn_line_number = line_number
    return Lines(entries, torn_line_number)


def _may_begin_a_record_file(line):
    text = line.decode("utf-8", "replace")[:len(OPENING)]
    return OPENING.startswith(text)


def _parse_numbered_line(line, line_number):
    try:
        return _parse_line(line)
    except ValueError as error:
        raise UnreadableLine(f"{line_number}: {error}") from error


def _parse_line(line):
    """The value of a line. Throws ValueError with a message of one line."""
    if not line.strip(b" \t\r"):
        raise ValueError("the line is empty")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("not text (UTF-8)") from error
    try:
        value = json.loads(text, object_pairs_hook=_dict_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("not JSON: nested too deeply") from error
    except _ErrorWithoutPosition:
        raise
    except ValueError as error:  # a number with more digits than Python parses
        raise ValueError("not JSON: a number of too many digits") from error
    if "\\ud" in text or "\\uD" in text:
        _refuse_half_surrogates(value)
    return value


class _ErrorWithoutPosition(ValueError):
    """An error whose message is complete without the position in the line."""


def _dict_without_duplicates(names_and_values):
    result = dict(names_and_values)
    if len(result) < len(names_and_values):
        field_names = [name for name, _ in names_and_values]
        duplicate = next(name for name in field_names if field_names.count(name) > 1)
        raise _ErrorWithoutPosition(f"names the field {json.dumps(duplicate[:40])} twice")
    return result


def _refuse_constant(constant):
    raise _ErrorWithoutPosition(f"not JSON: {constant}")


def _refuse_half_surrogates(value):
    """Throws for half a surrogate pair, which could not be encoded again."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _ErrorWithoutPosition("not text: half a surrogate pair") from error
