"""What holds of every page: length, links, figures that are there."""

import re

import conftest
import pytest

PAGES = [conftest.ROOT / "README.md", conftest.ROOT / "CONTRIBUTING.md", *sorted((conftest.ROOT / "docs").glob("*.md")),
         *sorted((conftest.ROOT / "results").rglob("*.md"))]


def words(text):
    return len(re.sub(r"(?s)<!--.*?-->", "", text).split())


def test_the_first_page_is_short():
    text = (conftest.ROOT / "README.md").read_text(encoding="utf-8")
    assert words(text[:text.index("## Go on")]) <= 1200


def test_the_pages_can_be_read_in_a_day():
    assert sum(words(page.read_text(encoding="utf-8")) for page in PAGES if page.parent.name == "docs") <= 25500


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
