"""Adds names to the code addresses of a trace while the program's files still exist: "file+0x12" becomes "file+0x12 function
(source:line)"."""

import json
import os
import re
import subprocess

# A code address: file, offset, and a name if it has one already.
PLACE = re.compile(r"^(/?[^+]+)\+(0x[0-9a-f]+)(?: (\S+))?$")
MAX_AT_ONCE = 500


def add_function_names(trace_file):
    """Rewrites the trace with the functions of code addresses that are known."""
    offsets = {}
    with open(trace_file, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := line.startswith('{"kind":"name"') and _match_place(line):
                offsets.setdefault(match[1], set()).add(match[2])
    known = {(file, offset): name for file, found in offsets.items() for offset, name in _function_names(file, sorted(found))}
    if not known:
        return
    rewritten = f"{trace_file}.0"
    with open(trace_file, encoding="utf-8", errors="replace") as file, open(rewritten, "w", encoding="utf-8") as out:
        for line in file:
            match = line.startswith('{"kind":"name"') and _match_place(line)
            name = match and known.get((match[1], match[2]))
            if name:
                entry = json.loads(line)
                line = json.dumps(entry | {"name": f"{match[1]}+{match[2]} {name}"}) + "\n"
            out.write(line)
    os.replace(rewritten, trace_file)


def _match_place(line):
    """The match of PLACE in the name of a line of the trace, or None."""
    try:
        return PLACE.match(json.loads(line)["name"])
    except (ValueError, KeyError, TypeError):
        return None


def _function_names(program_file, offsets):
    """[(offset, "function (source:line)")] of the offsets that addr2line knows."""
    found = []
    for first in range(0, len(offsets) if os.path.isfile(program_file) else 0, MAX_AT_ONCE):
        part = offsets[first:first + MAX_AT_ONCE]
        try:
            text = subprocess.run(["addr2line", "-f", "-C", "-s", "-e", program_file, *part], capture_output=True, text=True, timeout=300).stdout
        except (OSError, subprocess.SubprocessError):
            return found
        lines = text.splitlines()
        for offset, function, place in zip(part, lines[::2], lines[1::2]):
            if function and function != "??":
                found.append((offset, function if place.startswith("??") else f"{function} ({place.split(' ')[0]})"))
    return found
