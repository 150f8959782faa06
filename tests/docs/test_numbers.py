"""Figures that pages quote are those of the records; planted errors are found."""

import random
import re
import subprocess
import sys

import conftest
import pytest

from umbench import check_quotes

PLANTED = 25


def pages():
    return {page: page.read_text(encoding="utf-8") for page in check_quotes.default_pages()}


def test_every_figure_is_backed():
    wrong = [f"{page.name}:{line}: {what}" for page, text in pages().items() for line, what in check_quotes.check_text(text)]
    assert wrong == []


def test_tables_beside_the_records_are_what_the_commands_print():
    folder = conftest.ROOT / "results"
    checked = 0
    for page in sorted(folder.rglob("*.md")):
        for block in check_quotes.blocks_of_page(page.read_text(encoding="utf-8")):
            if block.comments:
                assert [what for _, what in check_quotes.check_block(block)] == [], page
                checked += 1
    assert checked >= 3


def recomputed_figures():
    """[(page, block, figure), ...] of all figures that comments compute from records, in the order of the pages."""
    found = []
    for page, text in pages().items():
        for block in check_quotes.blocks_of_page(text):
            for _, comment in block.comments:
                if comment.startswith("from "):
                    lines = [line.partition(" = ")[0] for line in comment.split("\n")[1:] if line.strip()]
                    found += [(page, block, literal.strip()) for line in lines for literal in line.split(", ")]
    return found


def with_one_digit_changed(literal, dice):
    """The literal with one digit changed."""
    digits = [at for at, letter in enumerate(literal) if letter.isdigit()]
    at = dice.choice(digits)
    other = dice.choice([digit for digit in "0123456789" if digit != literal[at]])
    return literal[:at] + other + literal[at + 1:]


def test_planted_errors_are_all_found():
    dice = random.Random(23)
    every = recomputed_figures()
    assert len(every) >= 2 * PLANTED
    for page, block, literal in dice.sample(every, PLANTED):
        lines, wrong = block.text.splitlines(), with_one_digit_changed(literal, dice)
        spots = [(number, match.start()) for number, line in enumerate(lines)
                 for match in re.finditer(rf"(?<![\w.]){re.escape(literal)}(?![\w]|\.\d)", line)]
        assert spots, f"{page.name}: {literal} is broken by the end of a line"
        number, at = dice.choice(spots)
        lines[number] = lines[number][:at] + wrong + lines[number][at + len(literal):]
        found = check_quotes.check_block(block._replace(text="\n".join(lines) + "\n"))
        assert found, f"{page.name}: {literal} as {wrong} is not found"


def test_errors_planted_in_comments_are_found():
    dice = random.Random(5)
    for page, block, literal in dice.sample(recomputed_figures(), PLANTED):
        wrong = with_one_digit_changed(literal, dice)
        comments = [(line, re.sub(rf"(?<![\w.]){re.escape(literal)}(?![\w]|\.\d)", wrong, comment, count=1))
                    for line, comment in block.comments]
        assert check_quotes.check_block(block._replace(comments=comments)), f"{page.name}: {literal} as {wrong}"


def errors_in(text):
    return [what for _, what in check_quotes.check_text(text)]


@pytest.mark.parametrize("sentence, figures", [
    ("It takes 3.7 ms.", ["3.7 ms"]), ("It is 1.2x as slow, or 30 %.", ["1.2x", "30 %"]),
    ("Of these 3 of 7 fit.", ["3 of 7"]), ("They take 1, 2 and 3 us.", ["1", "2", "3 us"]),
    ("It moves 40 GB/s and holds 1.53 GiB.", ["40 GB/s", "1.53 GiB"]),
    ("At ratio 1.5, batch 64, with 256 MiB and `3 ms` of code.", []),
    ("    umbench run --deadline 3 s", []), ("```\n3 ms\n```", []),
    ("| a |\n|---|\n| 1.25 |", ["1.25"]), ("- one\n- two takes 2 s\n  and 3 s", ["2 s", "3 s"])])
def test_what_needs_a_comment(sentence, figures):
    assert errors_in(sentence) == [f"nothing backs {figure}" for figure in figures]


BEST = "results/study/best_h200.jsonl"


@pytest.mark.parametrize("comment, complaint", [
    (f"from {BEST}\n16.7 ms = median(\"resnet50 device\")", None),
    (f"from {BEST}\n16.7 ms = median(\"resnet50 best\")", "names 4 cells"),
    (f"from {BEST}\n16.7 ms = median(\"vgg16 bf16 device\")", "16.7 ms is 42.2"),
    (f"from {BEST}\n16.8 ms = median(\"resnet50 device\")", "does not stand in the text"),
    (f"from {BEST}\n16.7 ms = open(\"x\")", "NameError"), (f"from {BEST}\n16.7 ms", "wants FIGURE"),
    ("from results/none.jsonl\n16.7 ms = median(\"\")", "no such file"), ("given: 16.7 ms", None),
    ("given: 16.7 ms, 18 ms", "18 ms does not stand in the text"),
    ("tested: tests/none.py", "is not there"), ("because", "begins with none of")])
def test_comments(comment, complaint):
    found = errors_in(f"A step takes 16.7 ms.\n<!-- {comment} -->\n")
    assert (found == []) if complaint is None else complaint in found[0]


def test_a_comment_backs_a_figure_for_its_own_block_alone():
    assert errors_in("It takes 3 ms.\n<!-- given: 3 ms -->\n\nIt takes 3 ms.\n") == ["nothing backs 3 ms"]


def test_tables_are_held_to_their_command():
    text = "| ratio | 0.5 |\n|---|---|\n| device | {} |\n<!-- table: python3 python/start.py plots.table results/measured/h200_capped.jsonl --markdown -->\n"
    assert errors_in(text.format("1.00x")) == []
    assert "prints no row" in errors_in(text.format("1.01x"))[0]


def test_the_script_says_where(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# A page\n\nIt takes 3 ms.\n", encoding="utf-8")
    run = [sys.executable, conftest.ROOT / "python/start.py", "check_quotes"]
    done = subprocess.run([*run, page], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == f"{page}:3: nothing backs 3 ms\n"
    done = subprocess.run([*run, tmp_path / "none.md"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
