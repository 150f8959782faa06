"""Adds names to the code addresses of a trace while the program's files still exist: "file+0x12" becomes "file+0x12 function
(source:line)"."""

import json
import os
import re
import subprocess

# A code address: file, offset, and a name if it has one already.
PLACE_PATTERN = re.compile(r"^(/?[^+]+)\+(0x[0-9a-f]+)(?: (\S+))?$")
MAX_OFFSETS_AT_ONCE = 500


def add_function_names(trace_file):
    """Rewrites the trace with the functions of code addresses that are known."""
    offsets_by_file = {}
    with open(trace_file, encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := line.startswith('{"kind":"name"') and _match_place(line):
                offsets_by_file.setdefault(match[1], set()).add(match[2])
    function_by_address = {(file, offset): function
                           for file, file_offsets in offsets_by_file.items() for offset, function in _function_names(file, sorted(file_offsets))}
    if not function_by_address:
        return
    rewritten_file = f"{trace_file}.0"
    with open(trace_file, encoding="utf-8", errors="replace") as file, open(rewritten_file, "w", encoding="utf-8") as out_file:
        for line in file:
            match = line.startswith('{"kind":"name"') and _match_place(line)
            function = match and function_by_address.get((match[1], match[2]))
            if function:
                entry = json.loads(line)
                line = json.dumps(entry | {"name": f"{match[1]}+{match[2]} {function}"}) + "\n"
            out_file.write(line)
    os.replace(rewritten_file, trace_file)


def _match_place(line):
    """The match of PLACE_PATTERN in the name of a line of the trace, or None."""
    try:
        return PLACE_PATTERN.match(json.loads(line)["name"])
    except (ValueError, KeyError, TypeError):
        return None


def _function_names(program_file, offsets):
    """[(offset, "function (source:line)")] of the offsets that addr2line knows."""
    names = []
    for first_index in range(0, len(offsets) if os.path.isfile(program_file) else 0, MAX_OFFSETS_AT_ONCE):
        some_offsets = offsets[first_index:first_index + MAX_OFFSETS_AT_ONCE]
        try:
            addr2line_output = subprocess.run(["addr2line", "-f", "-C", "-s", "-e", program_file, *some_offsets],
                                              capture_output=True, text=True, timeout=300).stdout
        except (OSError, subprocess.SubprocessError):
            return names
        lines = addr2line_output.splitlines()
        for offset, function, source_place in zip(some_offsets, lines[::2], lines[1::2]):
            if function and function != "??":
                names.append((offset, function if source_place.startswith("??") else f"{function} ({source_place.split(' ')[0]})"))
    return names
