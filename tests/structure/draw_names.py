#!/usr/bin/python3
"""Draw names and comments of the sources at random: does a reader who has not seen the project understand them?

    tests/structure/draw_names.py [--seed N] [--names 60] [--comments 40] [FOLDER...]
    tests/structure/draw_names.py python plots benchmarks tests/results

Folders of C++ are the default; of Python the docstrings are comments. Prints file:line, the name or the comment, and the line where a name is declared or that follows a comment. The same seed and the same sources give the same draw.
"""

import argparse
import ast
import random
import re
import tokenize

from structure import ROOT, functions, source_files

FOLDERS = ("core", "networks", "simulator", "schedule", "planners", "hints", "harness", "measure", "backends", "um_allocators", "trace")
TYPE = re.compile(r"\s*(?:enum class|class|struct|using|concept) (\w+)(?: :| =| \{|\b)(?!.*;\s*//\s*forward)")
MEMBER = re.compile(r"\s+(?:static |constexpr |const |mutable )*(?=\w)[\w:<>,\s\*&\[\]]+?[\s>&*](\w+)(?: = [^()]*|\{[^()]*\})?;(?:\s*//.*)?$")
KEYWORDS = ("asm", "return", "throw", "using", "friend", "break", "continue", "case", "default", "else", "delete", "goto", "typename")


def cpp_names(path):
    """(line number, name, line) of every type, function and member of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for name, first, _, signature in functions(lines):
        if kernel := re.search(r"__launch_bounds__\(.*?\) (\w+)\(", signature):
            name = kernel[1]
        yield first + 1, name.split("::")[-1], signature
    declares = re.compile(r"\s*(?:virtual |static |constexpr |inline |explicit )*(?=\w)[\w:<>,&\*\s]+?[\s&\*](\w+)\(.*\)(?: const)?(?: noexcept)?(?: = 0)?;$")
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(KEYWORDS) or line.lstrip().startswith("//"):
            continue
        found = TYPE.match(line) or (MEMBER.match(line) if path.suffix in (".hpp", ".cuh") else None)
        if not found and path.suffix in (".hpp", ".cuh"):
            found = declares.match(line)
        if found:
            yield number, found[1], line.strip()


def cpp_comments(path):
    """(line number, text) of every comment; consecutive lines are one."""
    block, first = [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() + [""], 1):
        text = line.strip()
        if text.startswith("//"):
            first = first or number
            block.append(text.lstrip("/ "))
            continue
        if block:
            yield first, " ".join(block) + (f"    [{text}]" if text else "")
            block, first = [], 0
        if text.startswith("}"):  # the end of a namespace
            continue
        if beside := re.search(r"\S\s+// (.+)$", line):
            yield number, f"{beside[1]}    [{line[: beside.start()+1].strip()}]"


def python_names(path):
    """The same of every class, function and argument of a Python file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.lineno, node.name, lines[node.lineno - 1].strip()
        elif isinstance(node, ast.arg) and node.arg != "self":
            yield node.lineno, node.arg, lines[node.lineno - 1].strip()


def python_comments(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), f"{getattr(node, 'name', path.name)}: {' '.join(text.split())}"
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT and not re.match("#!|# noqa", token.string):
                yield token.start[0], f"{token.string}    [{token.line[:token.start[1]].strip()}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--names", type=int, default=60)
    parser.add_argument("--comments", type=int, default=40)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    given = parser.parse_args()
    all_names, all_comments = {}, []
    python = [path for folder in given.folders for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in [*source_files(), *python]:
        where = path.relative_to(ROOT)
        if not any(where.is_relative_to(folder) for folder in given.folders):
            continue
        found, texts = (python_names, python_comments) if path.suffix == ".py" else (cpp_names, cpp_comments)
        for number, name, line in found(path):
            all_names.setdefault((where.parent, name), f"{where}:{number}: {name}    [{line}]")
        all_comments += [f"{where}:{number}: {text}" for number, text in texts(path)]
    draw = random.Random(given.seed)
    for kind, all_of_it, count in (("names", sorted(all_names.values()), given.names), ("comments", all_comments, given.comments)):
        print(f"{kind} ({count} of {len(all_of_it)})")
        for text in draw.sample(all_of_it, min(count, len(all_of_it))):
            print("  " + text)


if __name__ == "__main__":
    main()
