"""The counter of words and sentences, on small texts."""

import subprocess
import sys

import conftest
import sentences


def measured_page(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return sentences.measure_page(path)


def test_sentences_end_at_points_items_and_paragraphs(tmp_path):
    text = "# A heading\n\nOne two three. Four `five six`.\n- an item of five words\n- another\n\n| a | table |\n\n    a block of code\n"
    assert sentences.split_sentences(text) == ["One two three.", "Four code. ", "an item of five words ", "another "]
    assert measured_page(tmp_path, text).average == (3 + 2 + 5 + 1) / 4


def test_points_within_numbers_and_names_end_nothing(tmp_path):
    assert len(sentences.split_sentences("It took 1.5 ms in docs/a.md, i.e. twice [as long](b.md).")) == 1


def test_long_sentences_are_named(tmp_path):
    found = measured_page(tmp_path, " ".join(["word"] * 41) + ". Short.\n<!-- " + "comment " * 50 + "-->\n")
    assert [count for count, _ in found.long] == [41] and found.words == 42


def test_tables_of_results_do_not_count():
    table = "| a | b |\n|---|---|\n| c | d |\n\nTwo words\n"
    assert sentences.count_words(conftest.ROOT / "results/x.md", table) == 2
    assert sentences.count_words(conftest.ROOT / "docs/x.md", table) > 10


def test_the_script_says_which_page(tmp_path):
    page = conftest.ROOT / "python/README.md"
    done = subprocess.run([sys.executable, sentences.__file__, page], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("python/README.md: "), done.stdout + done.stderr
