#!/usr/bin/python3
"""Structure of the C++ sources: files of a folder do not include one another in a circle (a header and its source count as one file),
classes and functions are short.

Which folder may use which, the linker checks (docs/contributing/architecture.md).
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (".hpp", ".cpp", ".cuh", ".cu")
LEFT_OUT = ("build", ".git")
LEFT_OUT_OF_LIMITS = ("tests",)
LONGEST_CLASS = 250  # lines: its braces and every member defined elsewhere in its folder
LONGEST_FUNCTION = 70
# Headers that take seconds to compile, by the file that includes each.
SLOW_HEADERS = {"nlohmann/": "harness/json/fields.hpp", "CLI/": "harness/commands/options.cpp", "cudnn_frontend": "backends/cuda/cudnn_plans.cpp"}
# Functions that are a table of rows.
TABLES = ("planners", "table")


def source_files():
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in SOURCES and path.relative_to(ROOT).parts[0] not in LEFT_OUT:
            yield path


def includes_by_folder():
    """{folder: {room: rooms of the same folder that it includes}}."""
    found = {}
    for path in source_files():
        folder = path.parent.relative_to(ROOT)
        mine = found.setdefault(folder, {}).setdefault(path.stem, set())
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
            other = Path(name)
            if other.parent == folder and other.stem != path.stem:
                mine.add(other.stem)
    return found


def find_circle(rooms):
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


def classes(lines):
    """(name, first line, lines) of every class, by its braces."""
    for first, line in enumerate(lines):
        if begins := re.match(r"(\s*)(?:class|struct) (\w+)[^;]*\{$", line):
            last = next((at for at in range(first, len(lines)) if lines[at].startswith(begins[1] + "};")), first)
            yield begins[2], first, last - first + 1


NO_FUNCTION = re.compile(r"\s*(namespace|class|struct|enum|union|using|static_assert|extern|if|for|while|switch|else|do|catch|return|case)\b")
QUALIFIED = re.compile(r"([\w:~]+|operator[^\s\w]+)\s*\(")


def is_initialiser(line):
    """A member in a constructor's list: `name_(value),` or the last one, `name_(value) {`."""
    return line.count("(") == line.count(")") and re.match(r"\s*\w+\(.*\),$|\s*\w+_\(", line) is not None


def functions(lines):
    """(qualified name, first line, lines, signature) of every function that has a body of more than one line."""
    first = 0
    while first < len(lines):
        line = lines[first]
        if not re.match(r"\s*(?:[A-Za-z_~]|\[\[)", line) or NO_FUNCTION.match(line) or "(" not in line or is_initialiser(line):
            first += 1
            continue
        opens = first
        while opens < len(lines) and not re.search(r"[;{}]", lines[opens]):
            opens += 1
        signature = " ".join(text.strip() for text in lines[first : opens + 1])
        indent = re.match(r"\s*", line)[0]
        name = QUALIFIED.search(signature)
        is_body = opens < len(lines) and lines[opens].endswith("{") and re.search(r"\)[^=;]*\{$", signature)
        if not name or not is_body or re.search(r"[=|.]|std::$", signature[: name.end(1)]) or name[1].startswith("std::"):
            first = opens + 1 if opens > first else first + 1
            continue
        last = next((at for at in range(opens, len(lines)) if lines[at].startswith(indent + "}")), opens)
        yield name[1], first, last - first + 1, signature
        first = last + 1  # what stands in the body counts with it


def class_sizes():
    """{(folder, class): lines}, members counted wherever the folder defines them."""
    sizes = {}
    texts = [(path.parent.relative_to(ROOT), path.read_text(encoding="utf-8").splitlines()) for path in source_files()]
    for folder, lines in texts:
        if folder.parts[0] in LEFT_OUT_OF_LIMITS:
            continue
        for name, _, count in classes(lines):
            sizes[folder, name] = max(sizes.get((folder, name), 0), count)
    for folder, lines in texts:
        for name, _, count, _ in functions(lines):
            owner = name.split("::")[-2] if "::" in name else ""
            if (folder, owner) in sizes:
                sizes[folder, owner] += count
    return sizes


NO_NAME = re.compile(r"using|template|friend|static_assert|namespace|extern|__extension__|INSTANTIATE|[A-Z_]+\(")
JOINED = re.compile(r"(?:um_library|um_test|um_join)\((\S+)(.*?)(?:APART|DEPENDS|\)\n)", re.DOTALL)


def file_local_names(lines):
    """What a source names outside of functions and classes for itself alone: in a namespace without a name, or static."""
    is_own = False
    for line in lines:
        if line in ("namespace {", "}  // namespace"):
            is_own = line == "namespace {"
        elif re.match(r"[A-Za-z_\[]", line) and not NO_NAME.match(line) and (is_own or line.startswith("static ")):
            line = re.sub(r"__launch_bounds__\(.*?\)|\[\[.*?\]\] ?|//.*", "", line)
            while (shorter := re.sub(r"<[^<>]*>", "", line)) != line:
                line = shorter
            if kind := re.match(r"(?:enum class|class|struct|union|concept) (\w+)", line):
                yield kind[1]
            elif re.match(r"[^={]*\w\(", line):
                yield from re.findall(r"^[^(]*[ &*](\w+)\(", line)
            else:
                yield from re.findall(r"[ &*]([A-Za-z_]\w*)(?:\[.*?\])*(?: =|\{|;|$)", re.sub(r"= [^,;]*", "=", line))


def joined_sources():
    """{target: sources that are compiled together with UM_JOIN}; a target of tests without names has all of its folder."""
    lists = [path for path in sorted(ROOT.rglob("CMakeLists.txt")) if path.relative_to(ROOT).parts[0] not in LEFT_OUT]
    found = {}
    for path in lists:
        for target, text in JOINED.findall(path.read_text(encoding="utf-8")):
            named = [path.parent / name for name in re.findall(r"(?<=[ \n])[a-z][a-z0-9_/]*\.(?:cpp|cu)\b", text)]
            found[target] = named or (list(path.parent.glob("*_test.cpp")) if "{files}" in text else [])
    return found


def read_text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def names_in(enumeration, path):
    """The names of an enumeration, by its table (core/names.hpp)."""
    return re.findall(r'"(\w+)"sv', re.search(r"enum_names<" + enumeration + r">\{(.*?)\};", read_text(path), re.DOTALL)[1])


def strategy_names():
    rows = read_text("planners/planners.cpp") + read_text("hints/table.cpp")
    return set(re.findall(r'\.name = "(\w+)"', rows)) | set(re.findall(r'(?:rows\.add\(|^      )\{"(\w+)",$', rows, re.MULTILINE))


class Places(unittest.TestCase):
    """Where something is added, as docs/contributing/adding.md says."""

    def places_under(self, heading):
        page = read_text("docs/contributing/adding.md")
        return re.findall(r"^\| .* \| (\S+) \|$", page[page.index(heading):].split("\n\n", 2)[1], re.MULTILINE)

    def test_an_operator(self):
        """A kind that is in all those files and in no other: its gradient's file names `concat`, which has one."""
        places = self.places_under("**A new kind of operator**")
        self.assertLess(len(places), 8)
        for place in places:
            self.assertIn("concat", read_text(place), place)
        others = [path for path in source_files() if re.search(r"\bconcat_backward\b", path.read_text(encoding="utf-8"))]
        strangers = {str(path.relative_to(ROOT)) for path in others} - set(places)
        self.assertEqual({path for path in strangers if not path.startswith(("tests/", "backends/cuda/"))}, {"core/access.cpp"},
                         "core/access.cpp says why it cannot be cut")

    def test_a_mode(self):
        """Two files know a mode by its name: its table of names and its row."""
        for mode in names_in("run_mode", "harness/study/plan_file.hpp"):
            known = re.compile(r"run_mode::" + mode + r"\b|\"" + mode + r"\"sv|// " + mode + r"$", re.MULTILINE)
            found = {str(path.relative_to(ROOT)) for path in source_files()
                     if path.relative_to(ROOT).parts[0] not in LEFT_OUT_OF_LIMITS and known.search(path.read_text(encoding="utf-8"))}
            self.assertGreaterEqual(found, {"harness/study/plan_file.hpp", "harness/study/experiment.cpp"}, mode)
            if mode == "native":  # no default of anything
                self.assertEqual(len(found), 2, found)

    def test_strategies_are_listed_in_their_rows_alone(self):
        names = {name for name in strategy_names() if "_" in name}
        self.assertGreater(len(names), 12)
        for path in source_files():
            where = path.relative_to(ROOT)
            if where.parts[0] in ("tests", "benchmarks") or str(where) in ("planners/planners.cpp", "hints/table.cpp"):
                continue
            own = set(re.findall(r'"(\w+)"', path.read_text(encoding="utf-8"))) & names
            self.assertLess(len(own), 3 if where.parts[0] != "planners" else 4, f"{where} lists strategies: {sorted(own)}")


class Structure(unittest.TestCase):
    def test_files_of_a_folder_use_one_another_in_no_circle(self):
        folders = includes_by_folder()
        self.assertGreater(len(folders), 10)
        for folder, rooms in folders.items():
            with self.subTest(folder=str(folder)):
                self.assertEqual(find_circle(rooms), [])

    def test_a_circle_is_found(self):
        self.assertEqual(find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_sources_that_are_compiled_together_name_nothing_alike(self):
        """Functions of one name would overload each other: a call might mean that of another file."""
        total = 0
        for target, files in joined_sources().items():
            owner = {}
            for path in sorted(files):
                text = path.read_text(encoding="utf-8")
                if path.relative_to(ROOT).parts[0] != "tests":
                    self.assertIsNone(re.search(r"^(using namespace|#define)", text, re.MULTILINE), path)
                for name in set(file_local_names(text.splitlines())):
                    self.assertEqual(owner.setdefault(name, path), path, f"{target}: {name}")
            total += len(owner)
        self.assertGreater(total, 1500)

    def test_names_of_a_source_alone_are_found(self):
        lines = ["int shared(int x) {", "static int f(int x) {", "namespace {", "constexpr std::array<int, 2> a{1, 2}, b{};", "struct s {",
                 "  int member;", "std::pair<int, int>* g(const t& x,", "using size = int;", "}  // namespace", "int after = 1;"]
        self.assertEqual(list(file_local_names(lines)), ["f", "a", "b", "s", "g"])

    def test_a_cell_is_run_without_looking_names_up(self):
        """Names are looked up once, where a cell is made (harness/study/cell.cpp)."""
        lookup = re.compile(r"\b(strategy_named|strategy_of|parse_backend|family_named)\(|\bfind\((planners|hints)\(\)")
        files = [path for path in source_files() if path.relative_to(ROOT).parts[:2] == ("harness", "process")]
        self.assertGreater(len(files), 10)
        for path in files:
            self.assertIsNone(lookup.search(path.read_text(encoding="utf-8")), path.name)
        self.assertIsNotNone(lookup.search("return e.rules ? chosen(*e.rules) : strategy_named(e.strategy);"))

    def test_slow_headers_are_included_in_one_file_each(self):
        """The reader of JSON in turn is for its own folder, which compiles it once, and for tests."""
        for header, owner in SLOW_HEADERS.items():
            includes = re.compile(rf"^#include <{header}", re.MULTILINE)
            self.assertEqual([str(path.relative_to(ROOT)) for path in source_files() if includes.search(path.read_text(encoding="utf-8"))], [owner])
        readers = {path.relative_to(ROOT).parts[:2] for path in source_files() if re.search('"harness/json/(fields|document).hpp"', path.read_text(encoding="utf-8"))}
        self.assertEqual({reader for reader in readers if reader[0] != "tests"}, {("harness", "json")})

    def test_classes_are_short(self):
        self.assertEqual({name: lines for (_, name), lines in class_sizes().items() if lines > LONGEST_CLASS}, {})

    def test_members_defined_elsewhere_count(self):
        lines = ["int a::f(int x) const {", "  return x;", "}", "", "a::a(int x)", "    : x_(x) {", "  g(x);", "}"]
        self.assertEqual([(name, count) for name, _, count, _ in functions(lines)], [("a::f", 3), ("a::a", 4)])

    def test_functions_are_short(self):
        found = 0
        for path in source_files():
            if path.relative_to(ROOT).parts[0] in LEFT_OUT_OF_LIMITS:
                continue
            for name, first, lines, signature in functions(path.read_text(encoding="utf-8").splitlines()):
                found += 1
                if name in TABLES or path.suffix in (".cu", ".cuh"):
                    continue
                self.assertLessEqual(lines, LONGEST_FUNCTION, f"{path.relative_to(ROOT)}:{first + 1}: {name}")
        self.assertGreater(found, 1000)


if __name__ == "__main__":
    unittest.main()
