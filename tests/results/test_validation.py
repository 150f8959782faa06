"""The pages quote simulated.md, and the current program prints simulated.md."""

import itertools
import json
import re
import subprocess

import conftest
import pytest

FOLDER = conftest.ROOT / "results/validation"
HEADING = re.compile(r"(?m)^## (results/(\S+))(?: on machine file ([^,\n]+).*)?$")
COUNTS = r"^{} least disturbed of all runs: (\d+) figures, median (\d+) % off, worst (\d+) %, (\d+) within 15 %$"
CALIBRATED = {"h200_host_1": "first host: AlexNet", "h200_host_2": "second host: VGG-16 64", "h200_large_batches": "second host: VGG-16 256",
              "h200_host_3": "third host", "h100_host_2": "an H100", "h100_host_3": "another H100",
              "h200_host_4": "fourth host", "h100_host_4": "a third H100", "h200_host_5": "fifth host", "h100_host_6": "sixth host", "h100_host_7": "seventh host",
              "h100_host_8": "eighth host"}
USED_MEMORY = ("h200_host_5", "h100_host_6", "h100_host_7", "h100_host_8")


def sections():
    """[(file of records or figures, its name, machine file, text)]"""
    text = (FOLDER / "simulated.md").read_text(encoding="utf-8")
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [(*heading.groups(), text[heading.start():end]) for heading, end in zip(headings, ends)]


def figure_errors(text, first_or_later):
    """(number of figures, median and worst error in %, number within 15 %) of the "first" or the "later" iterations."""
    found = re.search("(?m)" + COUNTS.format(f"{first_or_later} iterations,"), text)
    return tuple(map(int, found.groups())) if found else None


def figures_near_with_recorded_addresses(text):
    """(number of figures within 15 %, number of figures) of later iterations of cells with the record's addresses; None if there are none."""
    found = re.search(r"cells with the record's addresses: (\d+) figures, .* (\d+) within 15 %", text)
    if found:
        return int(found[2]), int(found[1])
    number, _, _, within = figure_errors(text, "later")
    return None if "gives other addresses" in text else (within, number)


def order_text(text):
    right, pairs = map(int, re.search(r"more than 5 %: (\d+) of (\d+) pairs right", text).groups())
    return f"{right} of {pairs}" if pairs else "none differ by 5 %"


def test_the_page_of_validation_quotes_what_is_printed():
    rows = [line for line in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    compared = 0
    for _, name, _, text in sections():
        stem = name.rpartition("/")[2].removesuffix(".jsonl")
        later, first = figure_errors(text, "later"), figure_errors(text, "first")
        if later is None:
            continue
        label = CALIBRATED.get(stem, f"{stem}.jsonl")
        if stem.startswith("best_"):  # not checked here: the page has one row for all best_*.jsonl, and simulated.md has only some of them
            continue
        row, = [row for row in rows if row.startswith(f"| {label}") and row.count("|") > 3]
        if stem in CALIBRATED:
            cells = [f"{number}, {within}, {median} %, {worst} %" for number, median, worst, within in (later, first)]
        else:
            number, median, _, within = later
            cells = [f"{within} of {number}, {median} %", str(first[3])]
        for cell, quoted in zip([*cells, order_text(text)], row.split("|")[2:]):
            assert quoted.strip().startswith(cell), (row, cell)
        compared += 1
    assert compared == 19


def test_the_page_of_the_simulator_sums_them_up():
    page = (conftest.ROOT / "docs/method/simulator.md").read_text(encoding="utf-8")
    told = {name.rpartition("/")[2].partition(".")[0]: text for _, name, _, text in sections()}

    def count_within_15_percent(first_or_later, record_names):
        found = [figure_errors(told[name], first_or_later) for name in record_names]
        return f"{sum(each[3] for each in found)} of {sum(each[0] for each in found)}", max(each[2] for each in found)

    later, worst = count_within_15_percent("later", CALIBRATED)
    same = [found for found in (figures_near_with_recorded_addresses(told[name]) for name in CALIBRATED) if found]
    same = f"{sum(within for within, _ in same)} of {sum(cells for _, cells in same)}"
    assert f"| {later}; {same} with the record's addresses | the time; `managed` up to {worst} % off |" in page
    capped = ["h200_capped", "h200_capped_least_workspace", "h200_capped_small_workspace"]
    assert count_within_15_percent("later", capped)[1] < 20
    first_hosts = ["h200_host_1", "h200_host_2", "h200_large_batches"]
    given, near = [sum(each) for each in zip(*filter(None, (figures_near_with_recorded_addresses(told[name]) for name in first_hosts)))]
    page_of_records = (FOLDER / "README.md").read_text(encoding="utf-8")
    near_of_all, all_of_all = count_within_15_percent("later", first_hosts)[0].split(" of ")
    assert given == near and (f"Of {all_of_all} cells on the first two hosts {near_of_all} are within 15 %, all {given} that have the record's addresses."
                              in page_of_records)
    others, worst = count_within_15_percent("later", [*capped, "hints_h200", "hints_alexnet_h200", "untuned_h100"])
    assert f"| {others} | the time, within 20 %; large batches within {worst} % |" in page
    assert f"| first iterations | {count_within_15_percent('first', CALIBRATED)[0]}; two runs" in page
    assert f"{count_within_15_percent('first', USED_MEMORY)[0]} where the host's memory had been used before |" in page
    inside = [re.search(r"just above ratio 1: (\d+) of (\d+)", told[name]) for name in ("published", "h100_patterns", "h100_host_4_patterns", "h200_host_5_patterns")]
    assert "| just above ratio 1 | {} of {} in the band |".format(*(sum(int(each[i]) for each in inside) for i in (1, 2))) in page


def test_four_in_five_published_figures_are_near_and_within_bands():
    text, = [text for _, name, _, text in sections() if name == "validation/published.json"]
    inside, just_over, apart = re.search(r"just above ratio 1: (\d+) of (\d+) figures .* at most ([\d.]+) times apart", text).groups()
    near, others = re.search(r"(\d+) of (\d+) figures that it was not worked out from are within 1.5x", text).groups()
    assert int(inside) >= 0.8 * int(just_over) and float(apart) <= 4 and int(near) >= 0.8 * int(others)
    verdicts = [row.split("|")[-2] for row in text.splitlines() if row.startswith("| ") and not row.startswith("| machine |")]
    missed = sum("miss: " in verdict for verdict in verdicts)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{len(verdicts) - missed} of {len(verdicts)} figures are within 1.5 times, {near} of the {others} that no file" in page
    assert f"the band holds {inside} of {just_over} figures" in page and f"at most {apart} apart" in page


def test_patterns_that_the_file_does_not_contain_are_near():
    text, = [text for _, name, _, text in sections() if name == "validation/h200_patterns.json"]
    number, median, worst = map(int, re.search(r"what it was not: (\d+) figures, median (\d+) % off, worst (\d+) %", text).groups())
    assert median <= 10 and worst <= 25
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{number} figures that the machine file does not contain are {median} % off in the median" in page


def test_the_page_quotes_the_spread_between_runs_of_a_cell():
    runs = {}
    for stem in CALIBRATED:
        build = None
        for entry in map(json.loads, (FOLDER / f"{stem}.jsonl").read_text(encoding="utf-8").splitlines()):
            if entry["kind"] == "environment":
                build = entry["umbench"]
            elif entry["outcome"] == "ok":
                runs.setdefault((stem, build, entry["key"]), []).append(entry["samples_ns"])
    pairs = [pair for samples in runs.values() for pair in itertools.combinations(samples, 2)]

    def count_near(time_of):
        return sum(max(time_of(a), time_of(b)) <= 1.15 * min(time_of(a), time_of(b)) for a, b in pairs)

    page = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    first, later = count_near(lambda samples: samples[0]), count_near(lambda samples: min(samples[1:]))
    assert f"within 15 % of each other in {first} of {len(pairs)} pairs; later iterations in {later}." in page


def test_the_page_quotes_the_kernels_loaded_in_first_iterations():
    kept = map(json.loads, (FOLDER / "samples/first_iterations_h100.jsonl").read_text(encoding="utf-8").splitlines())
    cells = {(cell["module_loading"], *cell["key"].split("/")[::5][:2]): cell for cell in kept}
    late, early, parts = cells["lazy", "mobilenet_v2", "device"], cells["eager", "mobilenet_v2", "device"], cells["lazy", "vgg16", "best"]
    first_calls = sorted(parts["longest_steps_ms"].values())[-5:]
    page = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    assert f"MobileNetV2 takes {late['first_ms']:.1f} ms, {early['first_ms']:.1f} where" in page
    assert f"takes {parts['first_ms']:.1f}, {sum(first_calls):.1f} of them in five first calls" in page


@pytest.mark.study
@pytest.mark.parametrize("file, name, machine, text", [pytest.param(*section, id=section[1]) for section in sections()])
def test_the_current_program_prints_simulated_md(umbench, file, name, machine, text):
    machines = ["--machines", FOLDER / "machines"] if name.startswith("validation/h") else []
    said = subprocess.run([umbench.program, "validate", *machines, *(["--machine", machine] if machine else []), file],
                          cwd=conftest.ROOT, check=True, capture_output=True, text=True).stdout
    assert f"## {said.strip()}" == text.strip()


def test_the_pages_count_the_tests_of_the_gpu():
    runs = json.loads((conftest.ROOT / "results/measured/gpu_tests.json").read_text(encoding="utf-8"))["runs"]
    page = (conftest.ROOT / "docs/contributing/cuda.md").read_text(encoding="utf-8")
    kept = (conftest.ROOT / "results/measured/README.md").read_text(encoding="utf-8")
    for gpu in ("H200", "H100"):
        on_it = [run for run in runs if gpu in run["gpu"]]
        passed, failed, skipped = (sum(counts[what] for run in on_it for counts in run["programs"].values()) for what in ("ok", "failed", "skipped"))
        builds = ", ".join(run["umbench"][6:14] for run in on_it)
        assert f"{passed} pass, {failed} fail (H200, H100)" in page
        assert f"{gpu} ({builds})" in kept and not failed and f"{passed} passed, {skipped} skipped, none failed on each" in kept
