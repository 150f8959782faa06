"""What holds of every page: length, links, figures that are there."""

import re
from pathlib import Path

import conftest
import pytest
import sentences

PAGES = [conftest.ROOT / "README.md", conftest.ROOT / "CONTRIBUTING.md", *sorted((conftest.ROOT / "docs").rglob("*.md")),
         *sorted((conftest.ROOT / "results").rglob("*.md"))]


def test_the_first_page_is_short():
    page = conftest.ROOT / "README.md"
    assert sentences.measure_page(page).words <= 900
    text = sentences.without_comments(page.read_text(encoding="utf-8"))
    assert text.count("![") == 1 and len(re.findall(r"(?m)^\|---", text)) == 1
    on = text.split("## Where to go on")[1].split("\n\n")[0]
    assert on.count("](") <= 8 and on.count("**") == 6  # of three kinds of readers


def test_all_pages_can_be_read_in_a_day():
    assert sum(sentences.measure_page(page).words for page in sentences.listed_pages()) <= sentences.ALL_WORDS


@pytest.mark.parametrize("page", sentences.listed_pages(), ids=lambda page: str(page.relative_to(conftest.ROOT)))
def test_sentences_are_short(page):
    found = sentences.measure_page(page)
    assert found.average < sentences.AVERAGE and not found.long, found


def anchors(page):
    heads = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(conftest.ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), f"{target}#{anchor}"


def test_every_page_is_listed():
    """docs/ for users, docs/method and docs/contributing: docs/README.md names the pages of all three."""
    docs = conftest.ROOT / "docs"
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", (docs / "README.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"README.md"}
    assert pages <= listed, pages - listed
    assert {str(page.parent) for page in map(Path, pages)} == {".", "method", "contributing"}
