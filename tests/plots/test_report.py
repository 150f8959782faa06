"""`umbench report`: one page that needs nothing else, and the figures with their data."""

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import conftest  # noqa: F401
import pytest
import synthetic
from umbench import load

import matplotlib.image

from umbench.plots import report_parts
from umbench.plots.verdict import verdict_sentences

FIGURES = ["slowdown", "time", "traffic", "series", "timeline_1", "prediction"]


def counters(to_device_bytes, to_host_bytes):
    return synthetic.counters(prefetch_to_device_bytes=to_device_bytes, plan_evict_bytes=to_host_bytes)


def mixed_study():
    """Measured and simulated cells of the same work; one with a timeline; all with counters; one crashed."""
    both = [synthetic.record("vgg16", strategy, ratio, backend, synthetic.outcome_of(strategy, ratio),
                             counters={"first": counters(2**33, 0), "last": counters(2**32, 2**31)})
            for backend in ("sim:h200", "cuda:0") for strategy in synthetic.STRATEGIES for ratio in (0.5, 0.8, 1.5, 2.0, 3.0)]
    both[7]["timeline"] = synthetic.timeline()
    crashed = synthetic.record("vgg16", "managed", 4.0, "cuda:0", "crashed", reason="<b>made & up</b>")
    return both + [crashed]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """(folder, text of the page) of the mixed study."""
    folder = tmp_path_factory.mktemp("report")
    path = synthetic.write_records(folder / "study.jsonl", mixed_study())
    done = subprocess.run(["/usr/bin/python3", conftest.ROOT / "python/start.py", "plots.report", path, "--out", folder / "out"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "out", (folder / "out/index.html").read_text(encoding="utf-8")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.sources, self.links, self.tags, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append(tag)
        self.sources += [named["src"]] if "src" in named else []
        self.links += [named["href"]] if "href" in named else []

    def handle_data(self, data):
        self.text += data


def test_the_page_needs_nothing_else(report):
    folder, text = report
    page = Page(text)
    assert len(page.sources) == len(FIGURES)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "http" not in re.sub(r"<meta http-equiv", "", text)
    assert "default-src 'none'" in text
    links = [link for link in page.links if not link.startswith("#")]
    assert sorted(links) == sorted(f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg", "pdf", "csv"))
    assert all((folder / link).stat().st_size > 0 for link in links)


def test_measured_and_simulated_are_told_apart(report):
    folder, text = report
    assert text.count("class='kind measured'>measured<") == text.count("class='kind simulated'>simulated<") == 2
    for name in ("slowdown", "time", "traffic", "series"):
        rows = list(csv.DictReader((folder / f"{name}.csv").open(encoding="utf-8")))
        kinds = {row["machine"].split(", ")[1] for row in rows}
        assert kinds == {"measured", "simulated"}, name
    text = (folder / "slowdown.svg").read_text(encoding="utf-8")
    assert ", measured" in text and f"simulated, {synthetic.H200_MEASURED}" in text


def test_the_csv_holds_what_is_drawn(report):
    folder, _ = report
    rows = list(csv.DictReader((folder / "slowdown.csv").open(encoding="utf-8")))
    assert len(rows) == len(mixed_study())
    wanted = {(r["strategy"], r["ratio"], r["simulated"]): load.steady_ns(r) for r in mixed_study()}
    for row in rows:
        time = wanted[row["strategy"], float(row["ratio"]), "simulated" in row["machine"]]
        assert row["median_ns"] == ("" if time is None else str(time))
    pairs = list(csv.DictReader((folder / "prediction.csv").open(encoding="utf-8")))
    assert len(pairs) == 21 and all(pair["measured_ns"] == pair["simulated_ns"] for pair in pairs)
    assert all("cuda:0" in pair["measured"] and "sim:h200" in pair["simulated"] for pair in pairs)
    series = list(csv.DictReader((folder / "series.csv").open(encoding="utf-8")))
    assert {row["iteration"] for row in series} == {"1", "2", "3", "4", "5"}


def test_the_verdict_is_in_plain_words(report):
    _, text = report
    verdict = Page(text[text.index("<div class='verdict'>"):text.index("<section id='slowdown'>")]).text
    assert "Managed memory costs less than 5 % up to ratio 0.8." in verdict
    assert "Fastest at ratio 3: managed_prefetch, 3.97 times the time with everything on the device" in verdict
    assert "1 of 26 cells failed (crashed)." in verdict


def test_the_place_is_told_in_full(script, tmp_path):
    place = synthetic.environment() | {"gpu": synthetic.gpu(facts={"mig": "<off>"}, facts_missing={"mps": "made up"}), "nvidia_uvm": {"uvm_x": "51"}}
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in (place, synthetic.record())), encoding="utf-8")
    assert script("plots.report", path, "--out", tmp_path / "out").returncode == 0
    text = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    for name, value in (("umbench", "0.1.0+unknown"), ("created", "2026-01-01T00:00:00Z"), ("host.cpu", "made up"),
                        ("gpu.mig", "&lt;off&gt;"), ("gpu.mps", "not known: made up"), ("uvm_x", "51")):
        assert f"<tr><td>{name}</td><td>{value}</td></tr>" in text


def test_reasons_are_shown_as_text(report):
    _, text = report
    assert "&lt;b&gt;made &amp; up&lt;/b&gt;" in text and "<b>made" not in text


def test_time_parts_add_up():
    plain = synthetic.record("vgg16", "managed", 1.5)
    assert sum(report_parts.time_by_part(plain).values()) == load.steady_ns(plain)
    spans = [("compute", "a", 0, 50), ("to_device", "b", 40, 70), ("to_host", "c", 60, 90), ("compute", "d", 95, 100)]
    assert report_parts.time_by_part(record_with_spans(45, spans)) == {
        "compute": 45, "computing again": 0, "slower kernels": 10, "waiting for copies to the GPU": 20,
        "waiting for copies to the CPU": 20, "launches and gaps": 5}


def record_with_spans(compute_ns, spans, **changes):
    spans = [dict(zip(("lane", "name", "begin_ns", "end_ns"), span)) for span in spans]
    return synthetic.record("vgg16", "managed", 1.5, compute_ns=compute_ns,
                            timeline={"iteration": 1, "spans": spans, "resident": []}) | changes


def bounds_of_plan(swaps, repeats):
    return {"bounds": {"plan": {"class": "whole", "swaps": swaps, "repeats": repeats, "least_ns": 1}}}


def test_computing_again_and_faults_are_told_from_waiting():
    spans = [("compute", "a", 0, 50), ("compute", "b", 50, 80), ("compute", "a", 90, 140)]
    parts = report_parts.time_by_part(record_with_spans(80, spans, **bounds_of_plan(False, True)))
    assert parts["computing again"] == 50 and parts["launches and gaps"] == 10 and sum(parts.values()) == 140
    faulting = {"counters": {"first": synthetic.counters(), "last": synthetic.counters(faults=7)}}
    parts = report_parts.time_by_part(record_with_spans(80, spans, **bounds_of_plan(True, False), **faulting))
    assert parts["faults and evictions"] == 50 and parts["computing again"] == 0


@pytest.mark.parametrize("changes, name", [
    ({"family": "explicit"} | bounds_of_plan(False, True), "computing again"), ({"family": "explicit"} | bounds_of_plan(True, False), "waiting for copies"),
    ({"family": "explicit"} | bounds_of_plan(True, True), "copies or computing again"), ({"family": "explicit"} | bounds_of_plan(False, False), "launches and gaps"), ({}, "copies or faults"), ({"family": "explicit"}, "copies or computing again"),
    ({"counters": {"first": synthetic.counters(), "last": synthetic.counters(faults=7)}}, "faults and evictions")])
def test_without_a_timeline_the_plan_names_what_is_beyond_compute(changes, name):
    parts = report_parts.time_by_part(synthetic.record("vgg16", "managed", 1.5) | changes)
    assert list(parts) == ["compute", name] and set(parts) <= set(report_parts.TIME_PARTS)


def verdict_text(times_ms, ratios=(1.5,)):
    """The verdict on one network with these times in ms, the same at every ratio."""
    cells = [synthetic.record(strategy="device", ratio=0.5, time_ns=100 * 10**6)]
    cells += [synthetic.record(strategy=name, ratio=ratio, time_ns=time * 10**6) for name, time in times_ms.items() for ratio in ratios]
    return " ".join(verdict_sentences(load.group_of(cells[0]), cells, 100e6))


def test_what_hints_do_harm_is_said():
    text = verdict_text({"managed": 200, "managed_advise": 230, "managed_prefetch": 209})
    assert "managed_advise does harm at ratio 1.5: 1.15 times the time of plain managed memory." in text
    assert "managed_prefetch" not in text and "Fastest at ratio 1.5: managed, 2.00 times" in text
    text = verdict_text({"managed": 200, "managed_advise": 230}, (1.5, 2, 3))
    assert "managed_advise does harm at ratios 1.5, 2 and 3: up to 1.15 times" in text
    text = verdict_text({"managed": 200, "managed_advise": 150})
    assert "harm" not in text and "managed_advise, 1.50 times" in text and "2.00 times that time, 1.33 times as long as managed_advise" in text


def test_more_memory_that_makes_it_slower_is_said():
    cells = [synthetic.record(strategy="device", ratio=0.5, time_ns=10**8)]
    cells += [synthetic.record(strategy="best", ratio=ratio, time_ns=time) for ratio, time in ((1.25, 11 * 10**7), (1.5, 3 * 10**8), (2.0, 12 * 10**7))]
    text = " ".join(verdict_sentences(load.group_of(cells[0]), cells, 1e8))
    assert "best is slower with more memory: 3.00 times the time with everything on the device at ratio 1.5, 1.20 times at 2." in text
    assert "more memory" not in verdict_text({"managed": 200, "best": 120}, (1.5, 2))


def test_a_strategy_without_a_plan_where_another_has_one_is_said():
    cells = [synthetic.record(strategy="device", ratio=0.5, time_ns=10**8), synthetic.record(strategy="twin", ratio=3.0, time_ns=2 * 10**8),
             synthetic.record(strategy="best", ratio=3.0, outcome="infeasible"), synthetic.record(strategy="best", ratio=4.0, outcome="infeasible")]
    text = " ".join(verdict_sentences(load.group_of(cells[0]), cells, 1e8))
    assert "At ratio 3 there is no plan of best, while twin runs." in text and "At ratio 4 there is no plan" not in text


def test_cells_of_different_machine_files_are_said():
    cells = [synthetic.record(strategy="device", ratio=0.5, figures_digest="0" * 16), synthetic.record(ratio=1.5, figures_digest="1" * 16)]
    assert "simulated with 2 different machine files" in " ".join(verdict_sentences(load.group_of(cells[0]), cells, 1e8))
    assert "machine files" not in verdict_text({"managed": 200})


def test_a_small_difference_is_none():
    text = verdict_text({"managed": 200, "managed_advise": 196})
    assert "At ratio 1.5 nothing is faster than plain managed memory by 5 %, which takes 2.00 times" in text
    assert "managed_advise" not in text


def test_managed_memory_that_is_never_free_is_said():
    assert "Managed memory costs more than 5 % at ratio 0.8 already." in verdict_text({"managed": 120}, (0.8, 1.5))


@pytest.mark.parametrize("records, code, words", [([], 3, "no cell finished well"), (None, 2, "No such file")])
def test_nothing_to_report(script, tmp_path, records, code, words):
    path = tmp_path / "a.jsonl"
    if records is not None:
        synthetic.write_records(path, records)
    done = script("plots.report", path, "--out", tmp_path / "out")
    assert done.returncode == code and words in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_said(script, tmp_path):
    done = script("plots.report", synthetic.write_records(tmp_path / "a.jsonl", [synthetic.record()]), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/index.html").read_text(encoding="utf-8")
    for words in ("Nothing crossed the link", "ran with a timeline", "both measured and simulated",
                  "no cell with everything on the device"):
        assert words in text
    assert text.count("<section") == text.count("<img") + 4, "a part a figure, and what is best, all cells, what is not here, where"


def test_the_command_starts_it(umbench, tmp_path):
    path = tmp_path / "run.jsonl"
    assert umbench("run", "--network", "alexnet", "--strategy", "managed", "--ratio", "1.5", "--backend", "sim:h200",
                   "--timeline", "--out", path).returncode == 0
    done = umbench("report", path, "--out", tmp_path / "out")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == str(tmp_path / "out/index.html")
    assert "simulated" in (tmp_path / "out/index.html").read_text(encoding="utf-8")


def browser_path():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@pytest.mark.skipif(browser_path() is None, reason="no browser is installed (Debian: chromium)")
def test_a_browser_without_a_network_shows_it(report, tmp_path):
    """Every figure is drawn: the page has as many coloured rows of pixels as the figures at the width at which it shows them."""
    folder, _ = report
    command = [browser_path(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
               "--proxy-server=127.0.0.1:9", f"--user-data-dir={tmp_path / 'profile'}"]

    def count_coloured_rows(pixels):
        return int((pixels[:, :, :3].max(axis=2) - pixels[:, :, :3].min(axis=2) > 0.25).any(axis=1).sum())

    def count_coloured_rows_on_screen(page):
        shot = page.with_suffix(".png")
        done = subprocess.run([*command, "--window-size=1200,6000", f"--screenshot={shot}", page.as_uri()],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "ERR_" not in done.stderr, done.stderr
        pixels = matplotlib.image.imread(shot)
        assert pixels.shape[:2] == (6000, 1200)
        return count_coloured_rows(pixels)

    text = (folder / "index.html").read_text(encoding="utf-8")
    whole, blank = tmp_path / "whole.html", tmp_path / "blank.html"
    whole.write_text(text, encoding="utf-8")
    blank.write_text(re.sub(r"base64,[^']*", "base64,", text), encoding="utf-8")
    figures = [matplotlib.image.imread(folder / f"{name}.png") for name in FIGURES]
    expected = sum(count_coloured_rows(figure) * 900 / figure.shape[1] for figure in figures)
    assert count_coloured_rows_on_screen(whole) - count_coloured_rows_on_screen(blank) == pytest.approx(expected, rel=0.05)


# --- what a reader sees ---

@pytest.fixture(scope="module")
def chromium():
    """A headless browser that can be asked; opened once."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (Debian: python3-selenium)")
    driver = shutil.which("chromedriver")
    if browser_path() is None or driver is None:
        pytest.skip("no browser to drive is installed (Debian: chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser_path()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--proxy-server=127.0.0.1:9"):
        options.add_argument(flag)
    opened = webdriver.Chrome(service=webdriver.ChromeService(driver) if hasattr(webdriver, "ChromeService")
                              else __import__("selenium.webdriver.chrome.service", fromlist=["Service"]).Service(driver), options=options)
    yield opened
    opened.quit()


BOXES = """
const box = node => { const r = node.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const texts = [...document.querySelectorAll('h1,h2,h3,p,li,td,th,dt,dd,a,figcaption,span')].filter(n => n.textContent.trim());
return {wide: document.documentElement.scrollWidth, inner: document.documentElement.clientWidth,
        sections: [...document.querySelectorAll('section')].map(box), images: [...document.images].map(i => [i.clientWidth, i.naturalWidth]),
        blocks: [...document.querySelectorAll('section > *, nav, h1')].map(box),
        sizes: texts.map(n => [parseFloat(getComputedStyle(n).fontSize), n.textContent.slice(0, 40)]),
        links: [...document.querySelectorAll('nav a')].map(a => !!document.querySelector(a.getAttribute('href')))};
"""


@pytest.fixture(params=[1280, 390])
def seen(request, chromium, report):
    chromium.set_window_size(request.param, 900)
    chromium.get((report[0] / "index.html").as_uri())
    return chromium.execute_script(BOXES)


def test_nothing_is_wider_than_the_window(seen):
    assert seen["wide"] <= seen["inner"]


def test_boxes_follow_each_other(seen):
    assert len(seen["sections"]) >= 8
    for boxes in (seen["sections"], seen["blocks"]):
        for (_, _, _, bottom), (_, top, _, _) in zip(boxes, boxes[1:]):
            assert top >= bottom - 1
    assert all(left >= 0 and right <= seen["inner"] + 1 and bottom > top for left, top, right, bottom in seen["blocks"])


def test_text_can_be_read(seen):
    assert min(seen["sizes"])[0] >= 11, min(seen["sizes"])
    assert seen["images"] and all(natural > 0 for _, natural in seen["images"])
    assert all(9 / 72 * 100 * shown / 900 >= 10.5 for shown, natural in seen["images"] if natural == 1350), "text of the figures"


def test_the_contents_lead_to_every_part(seen):
    assert len(seen["links"]) == len(seen["sections"]) and all(seen["links"])


# --- what the page says ---

def report_text(script, tmp_path, records):
    done = script("plots.report", synthetic.write_records(tmp_path / "a.jsonl", records), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    return (tmp_path / "out/index.html").read_text(encoding="utf-8")


def test_the_best_strategy_of_each_ratio_comes_first(report):
    _, text = report
    best = text.index("<section id='best'>")
    assert best < text.index("<section id='slowdown'>")
    rows = re.findall(r"<tr><td>([\d.]+)</td><td><b>(\S+) ([\d.]+)x", text[best:text.index("<section id='slowdown'>")])
    assert ("3", "managed_prefetch", "3.97") in rows and ("0.5", "device", "1.00") in rows


def test_growth_is_recognised(script, tmp_path):
    cells = [synthetic.record("alexnet", strategy, batch / 128, batch=batch, key=f"alexnet/b{batch}/{strategy}/whole/sim:h200")
             for strategy in ("managed", "managed_prefetch") for batch in (64, 128, 256)]
    text = report_text(script, tmp_path, cells)
    assert "Slowdown as the work grows" in text and "Slowdown by ratio" not in text
    assert "nothing can be called slow or fast" not in text, "no verdict of one point each"
    assert re.search(r"<tr><td>256</td><td>2</td><td><b>managed_prefetch ", text)


def test_no_figure_stands_twice(report):
    _, text = report
    sources = Page(text).sources
    assert len(set(sources)) == len(sources) and "heat" not in text


def test_thirty_bars_can_be_read(script, tmp_path):
    names = [f"strategy_{number:02}" for number in range(30)]
    report_text(script, tmp_path, [synthetic.record(strategy=name, ratio=ratio) for name in [*names, "device"] for ratio in (0.5, 1.5)])
    text = (tmp_path / "out/time.svg").read_text(encoding="utf-8")
    height = float(re.search(r'<svg[^>]* height="([\d.]+)pt"', text)[1])
    assert all(f">{name}<" in text for name in names) and height / 30 > 10, "points a bar"


def test_panels_without_anything_are_left_out(script, tmp_path):
    none = {"first": counters(0, 0), "last": counters(0, 0)}
    text = report_text(script, tmp_path, [synthetic.record(strategy="device", ratio=ratio, counters=none) for ratio in (0.5, 1.0)])
    assert "Nothing crossed the link" in text and not (tmp_path / "out/traffic.png").exists()


def test_what_managed_memory_moves_is_in_the_timeline(script, tmp_path):
    last = synthetic.counters(fault_to_device_bytes=3 * 2**30, driver_evict_bytes=2**30)
    cell = synthetic.record(timeline=synthetic.timeline(), counters={"first": last, "last": last})
    report_text(script, tmp_path, [cell])
    text = (tmp_path / "out/timeline_1.svg").read_text(encoding="utf-8")
    assert "3 GiB by faults, while operators run" in text and "1 GiB evicted by the driver" in text


def test_median_quartiles_and_number_are_there(script, tmp_path):
    cells = [synthetic.record(strategy="device", ratio=0.9, backend="cuda:0", time_ns=10**8),
             synthetic.record(ratio=1.5, backend="cuda:0", samples_ns=[10**9, 2 * 10**8, 3 * 10**8, 2 * 10**8, 3 * 10**8])]
    text = report_text(script, tmp_path, cells)
    assert "2.5x ±0.5" in text and "n = 4" in text
    with (tmp_path / "out/slowdown.csv").open(encoding="utf-8") if (tmp_path / "out/slowdown.csv").exists() else (
            tmp_path / "out/time.csv").open(encoding="utf-8") as file:
        assert file.readline()
