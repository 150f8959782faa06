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
    last, torn = lines.pop(), None
    entries = [(number, _parse_numbered_line(line, number)) for number, line in enumerate(lines, start=1)]
    if last:
        number = len(lines) + 1
        try:
            entries.append((number, _parse_line(last)))
        except ValueError as error:
            if not entries and not _may_begin_a_record_file(last):
                raise UnreadableLine(f"{number}: {error}; no record file of umbench") from error
            torn = number
    return Lines(entries, torn)


def _may_begin_a_record_file(line):
    text = line.decode("utf-8", "replace")[:len(OPENING)]
    return OPENING.startswith(text)


def _parse_numbered_line(line, number):
    try:
        return _parse_line(line)
    except ValueError as error:
        raise UnreadableLine(f"{number}: {error}") from error


def _parse_line(line):
    """The value of a line. Throws ValueError with a message of one line."""
    if not line.strip(b" \t\r"):
        raise ValueError("the line is empty")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("not text (UTF-8)") from error
    try:
        found = json.loads(text, object_pairs_hook=_dict_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("not JSON: nested too deeply") from error
    except _ErrorWithoutPosition:
        raise
    except ValueError as error:  # a number with more digits than Python parses
        raise ValueError("not JSON: a number of too many digits") from error
    if "\\ud" in text or "\\uD" in text:
        _refuse_half_surrogates(found)
    return found


class _ErrorWithoutPosition(ValueError):
    """An error whose message is complete without the position in the line."""


def _dict_without_duplicates(pairs):
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise _ErrorWithoutPosition(f"names the field {json.dumps(double[:40])} twice")
    return made


def _refuse_constant(constant):
    raise _ErrorWithoutPosition(f"not JSON: {constant}")


def _refuse_half_surrogates(value):
    """Throws for half a surrogate pair, which could not be encoded again."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _ErrorWithoutPosition("not text: half a surrogate pair") from error
