#!/usr/bin/env python3
"""Counts the words of the pages and measures their sentences.

    tests/docs/sentences.py [PAGE.md ...]      without pages: every .md of the repository

Prints words, the average words of a sentence and the sentences above 40 words of each page. Comments do not count; tables count
outside of results/ only. Exit code 1 if a page is above the limits.
"""

import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AVERAGE, LONGEST, ALL_WORDS = 20, 40, 22_000
GENERATED = [ROOT / "results/validation" / name for name in ("simulated.md", "modes.md")]

Page = namedtuple("Page", "path words average long")  # long: [(words, sentence), ...]


def listed_pages():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in listed if (ROOT / name).is_file() and ROOT / name not in GENERATED]


def without_comments(text):
    return re.sub(r"(?s)<!--.*?-->", "", text)


def count_words(path, text):
    """Tables of results/ are generated and do not count."""
    lines = without_comments(text).splitlines()
    if path.is_relative_to(ROOT / "results"):
        lines = [line for line in lines if not line.startswith("|")]
    return sum(len(line.split()) for line in lines)


def split_sentences(text):
    """Sentences of paragraphs and list items; headings, tables and blocks of code have none."""
    text = re.sub(r"(?ms)^( *)```.*?^\1```$", "\n", without_comments(text))
    blocks, taking = [], False
    for line in text.splitlines():
        bare = line.strip()
        if not bare or line.startswith(("#", "|")) or (line.startswith("    ") and not taking):
            taking = False
            continue
        if not taking or re.match(r" *(?:[-*]|\d+\.) ", line):
            blocks.append("")
        blocks[-1] += bare + " "
        taking = True
    found = []
    for block in blocks:
        block = re.sub(r"`[^`]*`", "code", block)
        block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        block = re.sub(r"^(?:[-*]|\d+\.) ", "", block).replace("**", "").replace("*", "")
        found += [part for part in re.split(r"(?<=[.!?])[)\"]?\s+(?=[\"(]?[A-Z0-9]|code\b)|:\s+$", block) if part and part.strip()]
    return found


def measure_page(path):
    text = path.read_text(encoding="utf-8")
    counts = [(len(re.findall(r"[^\s]*\w[^\s]*", sentence)), " ".join(sentence.split())) for sentence in split_sentences(text)]
    counts = [each for each in counts if each[0]]
    average = sum(count for count, _ in counts) / len(counts) if counts else 0.0
    return Page(path, count_words(path, text), average, [each for each in counts if each[0] > LONGEST])


def main():
    found = [measure_page(path) for path in [Path(name).resolve() for name in sys.argv[1:]] or listed_pages()]
    for page in sorted(found, key=lambda page: -page.words):
        print(f"{page.path.relative_to(ROOT)}: {page.words} words, {page.average:.1f} a sentence, {len(page.long)} above {LONGEST}")
        for count, sentence in page.long:
            print(f"    {count}: {sentence[:110]}")
    print(f"{sum(page.words for page in found)} words in all; at most {ALL_WORDS}")
    return int(any(page.average >= AVERAGE or page.long for page in found) or sum(page.words for page in found) > ALL_WORDS)


if __name__ == "__main__":
    sys.exit(main())
