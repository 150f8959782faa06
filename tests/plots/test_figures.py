import json
import re

import matplotlib.image
import pytest
import synthetic
import conftest
from umbench import load

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def study(tmp_path):
    return synthetic.write_records(tmp_path / "study.jsonl", synthetic.study())


def svg_text(folder, figure_name):
    """All that is written in a figure, its lines joined."""
    return " ".join(re.findall(r">([^<>]*[^<>\s][^<>]*)<", (folder / f"{figure_name}.svg").read_text(encoding="utf-8")))


def test_slowdown_is_drawn_as_png_and_svg(script, study, tmp_path):
    done = script("plots.slowdown", study, "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figures/slowdown.png").read_bytes().startswith(PNG)
    text = svg_text(tmp_path / "figures", "slowdown")
    assert text.count(f"simulated, {synthetic.H200_MEASURED}") == 2
    assert text.count("simulated, none of 44 figures measured") == 2
    for shown in [*synthetic.STRATEGIES, "AlexNet", "VGG-16", "p100-pcie3-16g", "ratio 1", "does not fit", "slowdown"]:
        assert shown in text
    assert ", measured" not in text


def test_slowdown_without_a_baseline_shows_milliseconds(script, tmp_path):
    records = [r for r in synthetic.study(["vgg16"], ["sim:h200"]) if r["strategy"] != "device"]
    done = script("plots.slowdown", synthetic.write_records(tmp_path / "a.jsonl", records), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = svg_text(tmp_path, "slowdown")
    assert "no device baseline" in text and "ms per iteration" in text and "slowdown" not in text


def test_a_network_keeps_its_row_whatever_ran_it():
    from umbench.plots import slowdown
    from umbench import load

    groups = [load.group_of(synthetic.record()), load.group_of(synthetic.record(backend="cuda:0")),
              load.group_of(synthetic.record(backend="cuda:0", workspace_cap_bytes=1 << 28))]
    assert len({slowdown._row_key(group) for group in groups}) == 1
    assert len({slowdown._column_key(group) for group in groups}) == 3


def test_panels_wrap_at_the_width_of_the_page():
    from umbench.plots import common

    def grid_shape(panel_count, width):
        figure, axes = common.make_panels(panel_count, width)
        places = [axis.get_subplotspec() for axis in axes]
        common.pyplot.close(figure)
        return places[0].get_gridspec().nrows, places[0].get_gridspec().ncols, round(100 * figure.get_figwidth())

    assert grid_shape(1, 900) == (1, 1, 900) and grid_shape(3, 900) == (1, 3, 900)
    assert grid_shape(4, 900) == (2, 2, 900), "rather than three and one"
    assert grid_shape(7, 900) == (3, 3, 900) and grid_shape(7, 400) == (7, 1, 400)


def test_works_keep_together():
    from umbench.plots import slowdown

    records = [synthetic.record(network, backend=backend) | {"baseline_ns": None} for backend in ("sim:h200", "sim:a")
               for network in ("alexnet", "vgg16")]
    titles = [panel.title for panel in slowdown.panels_of(records)]
    assert [title.split(",")[0] for title in titles] == ["AlexNet", "AlexNet", "VGG-16", "VGG-16"]


def test_fusions_are_rows_and_precisions_columns(script, tmp_path):
    records = [synthetic.record(strategy=strategy, fusion=fusion, precision=precision, memory_order=order,
                                key=f"{strategy} {fusion} {precision} {order}", ratio=1.0)
               for fusion in ("none", "lean") for precision, order in (("fp32", "nchw"), ("bf16", "nhwc"), ("bf16", "nchw"))
               for strategy in ("device", "managed")]
    assert len(load.records_by_group(records)) == 6
    path = synthetic.write_records(tmp_path / "levels.jsonl", records)
    assert script("plots.slowdown", path, "--out", tmp_path).returncode == 0
    text = svg_text(tmp_path, "slowdown")
    for title in ("fp32, not fused", "bf16, NCHW, lean", "bf16, lean"):
        assert title in text
    tables = script("plots.table", path).stdout
    assert tables.count("device") >= 6 and "bf16, NCHW, not fused" in tables


@pytest.mark.parametrize("outcome", ["timeout", "out_of_memory", "crashed", "unsupported", "wrong_result"])
def test_other_failures_are_named_in_the_legend(script, tmp_path, outcome):
    records = [synthetic.record(ratio=1.0), synthetic.record(ratio=2.0, outcome=outcome),
               synthetic.record(strategy="swap_all", ratio=2.0, outcome=outcome)]
    done = script("plots.slowdown", synthetic.write_records(tmp_path / "a.jsonl", records), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed: " + outcome.replace("_", " ") in svg_text(tmp_path, "slowdown")


def test_figures_are_the_same_bytes_every_time(own_process, study, tmp_path):
    for folder in ("one", "two"):
        assert own_process("plots.slowdown", study, "--out", tmp_path / folder).returncode == 0
    for name in ("slowdown.png", "slowdown.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.fixture
def with_timeline(tmp_path):
    drawn = synthetic.record(timeline=synthetic.timeline())
    return synthetic.write_records(tmp_path / "t.jsonl", [synthetic.record(ratio=2.0), drawn]), drawn["key"]


def test_timeline_shows_lanes_memory_and_budget(script, with_timeline, tmp_path):
    path, key = with_timeline
    done = script("plots.timeline", path, "--key", key, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    png, svg = done.stdout.split()
    with open(png, "rb") as file:
        assert file.read(8) == PNG
    text = open(svg, encoding="utf-8").read()
    for shown in ("compute", "to device", "to host", "budget 5.33 GiB", "footprint 8 GiB", "resident on the device",
                  f"simulated, {synthetic.H200_MEASURED}", "iteration 5 of 5", "managed, ratio 1.5"):
        assert shown in text


def assert_one_line(done, exit_code, *expected_words):
    assert done.returncode == exit_code, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("umbench: ")
    for text in expected_words:
        assert text in done.stderr


def test_timeline_of_an_unknown_key_lists_those_there_are(script, with_timeline, tmp_path):
    assert_one_line(script("plots.timeline", with_timeline[0], "--key", "nope", "--out", tmp_path), 2, "'nope'", with_timeline[1])


def test_timeline_of_a_record_without_one_is_too_little(script, with_timeline, tmp_path):
    key = synthetic.record(ratio=2.0)["key"]
    assert_one_line(script("plots.timeline", with_timeline[0], "--key", key, "--out", tmp_path), 3, "no timeline", "--timeline")


@pytest.mark.parametrize("name", ["plots.slowdown", "plots.timeline"])
def test_bad_files_get_one_line_and_exit_code_2(script, tmp_path, name):
    assert_one_line(script(name, tmp_path / "absent.jsonl", "--out", tmp_path), 2, "absent.jsonl", "No such file")
    (tmp_path / "text.jsonl").write_text("hello\nworld\n")
    assert_one_line(script(name, tmp_path / "text.jsonl", "--out", tmp_path), 2, "text.jsonl:1")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00\n")
    assert_one_line(script(name, tmp_path / "binary.jsonl", "--out", tmp_path), 2, "binary.jsonl")


@pytest.mark.parametrize("name", ["plots.slowdown", "plots.timeline", "plots.table"])
def test_too_little_data_gets_exit_code_3(script, tmp_path, name):
    out = [] if name == "plots.table" else ["--out", tmp_path]
    assert_one_line(script(name, synthetic.write_records(tmp_path / "none.jsonl", []), *out), 3, "none.jsonl")


def test_a_folder_that_cannot_be_written_gets_one_line(script, study, tmp_path):
    (tmp_path / "file").write_text("")
    done = script("plots.slowdown", study, "--out", tmp_path / "file" / "x")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_table_gives_slowdowns_and_what_failed(script, study):
    done = script("plots.table", study)
    assert done.returncode == 0, done.stderr
    first = done.stdout.split("\n\n")[0].splitlines()
    assert "AlexNet" in first[0] and f"simulated, {synthetic.H200_MEASURED}" in first[0]
    rows = {line.split()[0]: line for line in first[1:]}
    assert rows["device"].split()[1:5] == ["1.00x", "1.00x", "1.00x", "no"]
    managed = (100_000_000 * 7.01 + 1.5) / (100_000_000 * 1.01 + 1.5)
    assert rows["managed"].split()[6] == f"{managed:.2f}x"


def test_markdown_table_has_a_rule_and_equal_columns(script, study):
    lines = [line for line in script("plots.table", study, "--markdown").stdout.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1 and any(line.startswith("| ---") for line in lines)


@pytest.mark.parametrize("compute_ns, stalled", [(22_000_000, "50% stalled"), (44_000_000, None), (None, None)])
def test_timeline_tells_stalls_from_work(script, tmp_path, compute_ns, stalled):
    record = synthetic.record(timeline=synthetic.timeline(), compute_ns=compute_ns)
    done = script("plots.timeline", synthetic.write_records(tmp_path / "t.jsonl", [record]), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = open(done.stdout.split()[1], encoding="utf-8").read()
    assert ("stalled" in text) == bool(stalled) and (stalled or "100% busy") in text


def write_machine_file(folder):
    path = folder / "machine.json"
    path.write_text('{"name": "made-up", "link_to_device_bytes_per_s": 10000000000, "link_to_host_bytes_per_s": 5000000000}',
                    encoding="utf-8")
    return path


def test_table_shows_the_share_of_the_link(script, tmp_path):
    cell = synthetic.record("vgg16", "managed", 1.5, time_ns=1_000_000_000)
    cell["samples_ns"] = [1_000_000_000] * 3
    cell["counters"] = {"first": synthetic.counters(), "last": synthetic.counters(fault_to_device_bytes=2_000_000_000,
                                                                            plan_evict_bytes=2_000_000_000)}
    path = synthetic.write_records(tmp_path / "a.jsonl", [cell])
    shown = script("plots.table", path, "--link", write_machine_file(tmp_path)).stdout
    assert "machine file made-up" in shown and "1000 40 %" in shown, "2 of 5 GB/s to the host are more than 2 of 10"
    assert "%" not in script("plots.table", path).stdout
    uncounted = synthetic.write_records(tmp_path / "b.jsonl", [synthetic.record("vgg16", "managed", 1.5, time_ns=1_000_000_000)])
    assert "1000 40 %" not in script("plots.table", uncounted, "--link", write_machine_file(tmp_path)).stdout


def test_table_refuses_a_link_that_is_no_machine_file(script, study, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    for path in (other, tmp_path / "absent.json"):
        done = script("plots.table", study, "--link", path)
        assert done.returncode == 2 and str(path) in done.stderr


# --- what a reader must see ---

def slowdown_figure(records, **figure_options):
    """The figure of slowdown.py of records that one file would hold."""
    from umbench.plots import common
    from umbench.plots import slowdown

    common.use_style()
    base = load.baseline_ns_by_group(records)
    return slowdown.figure_of([r | {"baseline_ns": load.baseline_ns_of_group(load.group_of(r), base)} for r in records], **figure_options)


def measured_record(strategy, ratio, samples_ns, **changes):
    return synthetic.record("vgg16", strategy, ratio, "cuda:0", samples_ns=samples_ns, device="NVIDIA H200", **changes)


def test_measured_points_have_whiskers_and_simulated_ones_none():
    spread = [0, 100, 110, 140, 150]
    cells = [measured_record("device", 0.9, [100] * 5), measured_record("managed", 1.5, [10**6 * each for each in spread])]
    axis = slowdown_figure(cells).axes[0]
    (bar,) = axis.containers
    low, high = bar.lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == (107.5 * 10**6 / 100, 142.5 * 10**6 / 100), "quartiles of the last four"
    simulated = [cell | {"simulated": True, "backend": "sim:h200"} for cell in cells]
    assert not slowdown_figure(simulated).axes[0].containers


def test_a_simulated_band_is_drawn_and_written():
    from umbench import iteration_times

    device = synthetic.record(strategy="device", ratio=0.9, samples_ns=[100] * 5)
    cell = synthetic.record(strategy="managed", ratio=1.25, samples_ns=[400, 200, 200, 200, 200],
                            band_ns={"low": 110, "high": 220})
    (bar,) = slowdown_figure([device, cell]).axes[0].containers
    assert tuple(bar.lines[2][0].get_segments()[0][:, 1]) == (1.1, 2.2)
    assert iteration_times.slowdown_text(cell, 100) == "2.00x (1.10 to 2.20)"
    assert iteration_times.milliseconds_text(cell | {"band_ns": {"low": 200, "high": 200}}) == "0.00", "a band without width says nothing"


@pytest.mark.parametrize("failing", [(1.0,), (1.5,), (2.0, 3.0)])
def test_every_cell_without_a_time_is_marked(failing):
    ratios = (0.5, 1.0, 1.5, 2.0, 3.0)
    cells = [synthetic.record(strategy="managed", ratio=ratio, outcome="crashed" if ratio in failing else "ok") for ratio in ratios]
    crosses = [line for line in slowdown_figure(cells).axes[0].lines if line.get_marker() == "X"]
    assert sorted(line.get_xdata()[0] for line in crosses) == list(failing)


def test_panels_of_one_work_share_the_scale_of_ratios():
    """The ratios of the second panel alone would be drawn on a linear axis."""
    cells = [synthetic.record(strategy="device", ratio=ratio, backend=backend) for backend, ratios in
             (("sim:h200", (0.4, 4.0)), ("sim:p100-pcie3-16g", (1.0, 2.0))) for ratio in ratios]
    assert [axis.get_xscale() for axis in slowdown_figure(cells).axes] == ["log", "log"]
    assert [axis.get_xscale() for axis in slowdown_figure(cells[2:]).axes] == ["linear"]


def test_markers_of_a_line_do_not_lie_on_each_other():
    cells = [synthetic.record(strategy="device", ratio=ratio) for ratio in (0.5, 0.99, 0.995, 1.0)]
    (line,) = [line for line in slowdown_figure(cells).axes[0].lines if len(line.get_xdata()) == 4]
    assert line.get_markevery() == [0, 1, 3]


def test_growth_marks_what_failed_and_names_sizes():
    from umbench.plots import growth

    cells = [synthetic.record("alexnet", "managed", batch / 128, batch=batch, key=f"alexnet/b{batch}/managed/whole/sim:h200",
                              outcome="timeout" if batch == 512 else "ok") for batch in (64, 128, 256, 512)]
    figure = growth.figure_of(cells)
    axis = figure.axes[0]
    assert [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "X"] == [4.0]
    upper = next(child for child in axis.child_axes)
    assert [label.get_text() for label in upper.get_xticklabels()] == ["512", "256", "128", "64"]
    assert axis.get_ylabel() == slowdown_figure([synthetic.record(strategy="device", ratio=0.5)]).axes[0].get_ylabel(), "one vocabulary"


def test_every_strategy_has_a_row_that_no_other_looks_like(umbench):
    from umbench.plots import looks

    listed = umbench("list", "strategies", "--json")
    of_one_role = ("read_mostly_", "preferred_device_", "preferred_host_", "accessed_by_device_")  # take a look by their name
    names = {row["name"] for row in json.loads(listed.stdout)["strategies"] if not row["name"].startswith(of_one_role)}
    assert len(names) > 25 and names <= set(looks.LOOKS), names - set(looks.LOOKS)
    assert len({(marker, dash) for _, marker, dash in looks.LOOKS.values()}) == len(looks.LOOKS), "told apart without colour"


def test_a_strategy_looks_the_same_whatever_stands_beside_it():
    from umbench.plots.looks import looks_by_label

    alone = looks_by_label({"twin": "managed", "plan:mine": "explicit"})
    beside = looks_by_label({"device": "device", "plan:mine": "explicit", "managed": "managed", "twin": "managed", "a": "managed"})
    assert all(beside[label] == look for label, look in alone.items())
    variants = looks_by_label({"best (bits 0)": "explicit", "best (bits 1)": "explicit"})
    assert len({look.dash for look in variants.values()}) == 2 and len({look.colour for look in variants.values()}) == 1


@pytest.mark.parametrize("width", [300, 480, 700, 900])
def test_titles_stay_in_the_picture_and_off_each_other(width):
    found = slowdown_figure([record | {"workspace_cap_bytes": 2**28, "network": "resnext101_32x8d"} for record in synthetic.study()], width=width)
    titles = [(text, box) for text, box in texts_and_boxes(found) if "ratio" not in text.get_text() and "\n" in text.get_text()]
    assert len(titles) == 4 and all(box.x1 <= width and box.x0 >= 0 for _, box in titles)
    for number, (_, box) in enumerate(titles):
        assert not any(box.overlaps(other) for _, other in titles[:number])


def test_a_strip_of_its_own_holds_the_cells_without_a_time():
    axis = slowdown_figure(synthetic.study(["vgg16"], ["sim:h200"])).axes[0]
    crosses = [line.get_ydata()[0] for line in axis.lines if line.get_marker() == "x"]
    lines = [max(line.get_ydata()) for line in axis.lines if len(line.get_xdata()) > 2]
    assert len(crosses) == 7 and min(crosses) > max(lines)
    assert max(axis.get_yticks()) < min(crosses), "a strip has no scale"


def luminance(colour):
    import matplotlib.colors

    return sum(weight * part for weight, part in zip((0.299, 0.587, 0.114), matplotlib.colors.to_rgb(colour)))


def test_colours_are_dark_enough_to_print():
    from umbench.plots.looks import LOOKS, OTHER_COLOURS

    colours = [colour for colour, _, _ in LOOKS.values()] + [colour for colours in OTHER_COLOURS.values() for colour in colours]
    assert all(luminance(colour) < 0.6 for colour in colours)


def texts_and_boxes(figure):
    """[(text, its box in pixels)] of all that is written in a figure."""
    import matplotlib.text

    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    beyond = set()  # labels of ticks outside of what an axis shows, which are not drawn
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond |= {id(tick.label1) for tick in axis.get_major_ticks() + axis.get_minor_ticks() if not low <= tick.get_loc() <= high}
    found = [text for text in figure.findobj(matplotlib.text.Text)
             if text.get_text().strip() and text.get_visible() and id(text) not in beyond]
    return [(text, text.get_window_extent(renderer)) for text in found]


def figure_of_kind(kind, width):
    """A figure of each kind, as its script draws it."""
    from umbench.plots import growth
    from umbench.plots import peers_figure
    from umbench.plots import report_figures
    from umbench import peer_files

    cells = [cell | {"baseline_ns": 10**8} for cell in synthetic.study()]
    if kind == "growth":
        return growth.figure_of([synthetic.record("alexnet", name, batch / 1000, backend=backend, batch=batch,
                                                  key=f"alexnet/b{batch}/{name}/whole/{backend}") for name in ("managed", "twin")
                                 for backend in ("sim:h200", "sim:p100-pcie3-16g") for batch in (256, 512, 1024, 2048, 4096)], width)
    if kind == "peers":
        return peers_figure.figure_of(peer_files.read(str(conftest.ROOT / "results/peers/pytorch_h200.jsonl")), width)
    if kind in ("time", "traffic", "iterations"):
        last = {"last": synthetic.counters(fault_to_device_bytes=2**32)}
        groups = load.records_by_group([cell | {"counters": last | {"first": last["last"]}} for cell in cells])
        return getattr(report_figures, f"_{kind}_section")(groups).figure
    return slowdown_figure(synthetic.study(), width=width)


@pytest.mark.parametrize("kind, width", [("slowdown", 900), ("slowdown", 480), ("growth", 900), ("growth", 480), ("peers", 900),
                                         ("time", 900), ("traffic", 900), ("iterations", 900)])
def test_text_is_large_enough_and_does_not_overlap(kind, width):
    found = texts_and_boxes(figure_of_kind(kind, width))
    assert len(found) > 20
    for number, (text, box) in enumerate(found):
        assert text.get_fontsize() * 100 / 72 >= 10.5, text.get_text()
        assert box.x0 >= -1 and box.x1 <= width + 1, text.get_text()
        for other, beside in found[:number]:
            apart = box.x1 <= beside.x0 + 1 or beside.x1 <= box.x0 + 1 or box.y1 <= beside.y0 + 1 or beside.y1 <= box.y0 + 1
            assert apart, f"{text.get_text()} on {other.get_text()}"


def test_the_baseline_is_that_of_the_cell_s_own_file(script, tmp_path):
    """Two sessions of one work: each is held against its own."""
    one = synthetic.write_records(tmp_path / "one.jsonl", [measured_record("device", 0.9, [100, 100]), measured_record("managed", 1.5, [200, 200])])
    two = synthetic.write_records(tmp_path / "two.jsonl", [measured_record("device", 0.9, [200, 200]), measured_record("twin", 1.5, [300, 300])])
    from umbench.plots import common

    found = {cell["strategy"]: load.steady_ns(cell) / cell["baseline_ns"] for cell in common.read([one, two])}
    assert found["managed"] == 2 and found["twin"] == 1.5
    assert {cell["strategy"] for cell in common.read([one, two], ["twin"])} == {"twin"}


@pytest.fixture
def plot(script):
    def run(*arguments):
        return script("plots", *arguments)

    return run


def test_plot_draws_each_kind(plot, study, tmp_path, with_timeline):
    assert plot("slowdown", study, "--out", tmp_path, "--format", "png,svg,pdf", "--strategies", "device,managed").returncode == 0
    assert (tmp_path / "slowdown.pdf").read_bytes().startswith(b"%PDF")
    assert "swap_all" not in svg_text(tmp_path, "slowdown")
    assert plot("timeline", with_timeline[0], "--out", tmp_path).returncode == 0
    bounds = {"swap_ns": 300_000_000, "recompute_ns": 200_000_000, "both_ns": 150_000_000}
    cells = [synthetic.record(strategy=s, ratio=r, bounds=bounds) for s, r in (("device", 1.0), ("best", 1.5), ("best", 2.0))]
    assert plot("bounds", synthetic.write_records(tmp_path / "b.jsonl", cells), "--out", tmp_path).returncode == 0
    assert "bound: computing again alone" in svg_text(tmp_path, "bounds")
    assert plot("peers", conftest.ROOT / "results/peers/pytorch_h200.jsonl", "--out", tmp_path).returncode == 0
    assert "VGG-16, 256, fp32" in svg_text(tmp_path, "peers")
    assert "n = 4" in plot("table", study).stdout


@pytest.mark.parametrize("arguments, code, shown", [
    (["cake"], 2, "no kind cake"), (["slowdown"], 2, "FILE.jsonl"), ([], 2, ""), (["--help"], 0, "growth"),
    (["slowdown", "FILE", "--width", "12"], 2, "width"), (["slowdown", "FILE", "--format", "gif"], 2, "format"),
    (["slowdown", "FILE", "--strategies", "cake"], 2, "no cell of cake"), (["growth", "FILE"], 3, "varies"),
    (["bounds", "FILE"], 3, "bounds")])
def test_plot_says_what_is_wrong(plot, study, tmp_path, arguments, code, shown):
    done = plot(*[study if word == "FILE" else word for word in arguments])
    assert done.returncode == code and shown in done.stdout + done.stderr and done.stderr.count("\n") <= 1


@pytest.mark.study
def test_figures_of_the_pages_can_be_drawn_again(script, tmp_path):
    from umbench.plots import pages

    done = script("plots.pages", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.stem for path in tmp_path.glob("*.png")) == sorted(pages.FIGURES)
    gallery = (conftest.ROOT / "docs/figures.md").read_text(encoding="utf-8")
    for name in pages.FIGURES:
        assert f"](figures/{name}.png)" in gallery, name
        kept, anew = (matplotlib.image.imread(folder / f"{name}.png") for folder in (conftest.ROOT / "docs/figures", tmp_path))
        assert kept.shape == anew.shape and abs(kept - anew).mean() < 0.01, f"{name}: draw it anew (plots.pages)"


@pytest.mark.parametrize("value, half, text", [(8.27, 0.2, "8.3x ±0.2"), (1.033, 0.001, "1.03x"), (12.04, 2.1, "12x ±2"),
                                               (1.033, 0, "1.03x")])
def test_digits_go_as_far_as_the_spread_allows(value, half, text):
    from umbench import iteration_times

    assert iteration_times._text_with_half_range(value, half, "x") == text
