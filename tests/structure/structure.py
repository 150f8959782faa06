#!/usr/bin/python3
"""Is the source in order? No circle of files within a folder, a header and its source counting as one; no class longer than a reader
can hold.

A folder's files are its own: which folders may use which is for the linker to say (docs/architecture.md).
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (".hpp", ".cpp", ".cuh", ".cu")
LEFT_OUT = ("build", ".git")
LONG = ("tests",)  # folders some of whose classes are longer
LONGEST_CLASS = 200


def sources():
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in SOURCES and path.relative_to(ROOT).parts[0] not in LEFT_OUT:
            yield path


def uses():
    """{folder: {room: rooms of the same folder that it includes}}."""
    found = {}
    for path in sources():
        folder = path.parent.relative_to(ROOT)
        mine = found.setdefault(folder, {}).setdefault(path.stem, set())
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
            other = Path(name)
            if other.parent == folder and other.stem != path.stem:
                mine.add(other.stem)
    return found


def circle(rooms):
    """Some rooms that use one another in a circle, the first one at the end again; [] if there is none."""
    done, path = set(), []

    def follow(room):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return []
        path.append(room)
        for other in sorted(rooms.get(room, ())):
            if found := follow(other):
                return found
        done.add(path.pop())
        return []

    for room in sorted(rooms):
        if found := follow(room):
            return found
    return []


def classes(path):
    """(name, lines) of every class."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for first, line in enumerate(lines):
        if begins := re.match(r"(\s*)(?:class|struct) (\w+)[^;]*\{$", line):
            last = next((at for at in range(first, len(lines)) if lines[at].startswith(begins[1] + "};")), first)
            yield begins[2], last - first + 1


class Structure(unittest.TestCase):
    def test_files_of_a_folder_use_one_another_in_no_circle(self):
        folders = uses()
        self.assertGreater(len(folders), 10)
        for folder, rooms in folders.items():
            with self.subTest(folder=str(folder)):
                self.assertEqual(circle(rooms), [])

    def test_a_circle_is_found(self):
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_a_cell_is_run_without_looking_names_up(self):
        """They are looked up once, where a cell is made (harness/study/cell.cpp)."""
        lookup = re.compile(r"\b(strategy_named|strategy_of|parse_backend|family_named)\(|\bfind\((planners|hints)\(\)")
        files = [path for path in sources() if path.relative_to(ROOT).parts[:2] == ("harness", "process")]
        self.assertGreater(len(files), 10)
        for path in files:
            self.assertIsNone(lookup.search(path.read_text(encoding="utf-8")), path.name)
        self.assertIsNotNone(lookup.search("return e.rules ? chosen(*e.rules) : strategy_named(e.strategy);"))

    def test_classes_are_short(self):
        for path in sources():
            if path.relative_to(ROOT).parts[0] not in LONG:
                for name, lines in classes(path):
                    self.assertLessEqual(lines, LONGEST_CLASS, f"{path.relative_to(ROOT)}: {name}")


if __name__ == "__main__":
    unittest.main()
