import pytest
import synthetic
from results import load

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def study(tmp_path):
    return synthetic.write(tmp_path / "study.jsonl", synthetic.study())


def svg_text(folder, name):
    return (folder / f"{name}.svg").read_text(encoding="utf-8")


def test_slowdown_is_drawn_as_png_and_svg(script, study, tmp_path):
    done = script("slowdown.py", study, "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figures/slowdown.png").read_bytes().startswith(PNG)
    text = svg_text(tmp_path / "figures", "slowdown")
    assert text.count("simulated, estimated rates") == 4
    for shown in [*synthetic.STRATEGIES, "AlexNet", "VGG-16", "p100-pcie3-16g", "ratio 1", "does not fit", "slowdown"]:
        assert shown in text
    assert "measured" not in text


def test_slowdown_without_a_baseline_shows_milliseconds(script, tmp_path):
    records = [r for r in synthetic.study(["vgg16"], ["sim:h200"]) if r["strategy"] != "device"]
    done = script("slowdown.py", synthetic.write(tmp_path / "a.jsonl", records), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = svg_text(tmp_path, "slowdown")
    assert "no device baseline" in text and "ms per iteration" in text and "slowdown" not in text


def test_measured_and_simulated_get_panels_of_their_own(script, tmp_path):
    simulated = synthetic.write(tmp_path / "s.jsonl", synthetic.study(["vgg16"], ["sim:h200"]))
    measured = synthetic.write(tmp_path / "m.jsonl", [
        synthetic.record("vgg16", s, r, "cuda:0", synthetic.outcome_of(s, r), device="NVIDIA H200")
        for s in synthetic.STRATEGIES for r in (0.5, 1.0, 2.0)])
    done = script("slowdown.py", simulated, measured, "--out", tmp_path, "--name", "both")
    assert done.returncode == 0, done.stderr
    text = svg_text(tmp_path, "both")
    assert "h200, simulated, estimated rates" in text and "NVIDIA H200, measured, capped" in text


def test_a_network_keeps_its_row_whatever_ran_it():
    import slowdown
    from results import load

    groups = [load.group_of(synthetic.record()), load.group_of(synthetic.record(backend="cuda:0")),
              load.group_of(synthetic.record(backend="cuda:0", workspace_cap_bytes=1 << 28))]
    assert len({slowdown._work(group) for group in groups}) == 1
    assert len({slowdown._column(group) for group in groups}) == 3


def test_panels_fill_the_page():
    import slowdown

    def places(*records):
        return list(slowdown._places(load.groups(records)).values())

    both = [synthetic.record(network, backend=backend) for network in ("alexnet", "vgg16") for backend in ("sim:h200", "sim:a")]
    assert places(*both) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert places(*both[:3]) == [(0, 0), (0, 1), (1, 0)]
    assert places(both[0], both[3]) == [(0, 0), (0, 1)], "rather than in two corners of four"
    apart = [synthetic.record(network, backend=f"sim:{network}") for network in ("alexnet", "vgg11", "vgg13", "vgg16")]
    assert places(*apart) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_fusions_are_rows_and_precisions_columns(script, tmp_path):
    import slowdown
    from results import load

    records = [synthetic.record(strategy=strategy, fusion=fusion, precision=precision, memory_order=order,
                                key=f"{strategy} {fusion} {precision} {order}", ratio=1.0)
               for fusion in ("none", "lean") for precision, order in (("fp32", "nchw"), ("bf16", "nhwc"), ("bf16", "nchw"))
               for strategy in ("device", "managed")]
    groups = list(load.groups(records))
    assert len(groups) == 6
    assert len({slowdown._work(group) for group in groups}) == 2
    assert len({slowdown._column(group) for group in groups}) == 3
    path = synthetic.write(tmp_path / "levels.jsonl", records)
    assert script("slowdown.py", path, "--out", tmp_path).returncode == 0
    text = svg_text(tmp_path, "slowdown")
    for title in ("fp32, not fused", "bf16, NCHW, lean", "bf16, lean"):
        assert title in text
    tables = script("table.py", path).stdout
    assert tables.count("device") >= 6 and "bf16, NCHW, not fused" in tables


@pytest.mark.parametrize("outcome", ["timeout", "out_of_memory", "crashed", "unsupported", "wrong_result"])
def test_other_failures_are_named_in_the_legend(script, tmp_path, outcome):
    records = [synthetic.record(ratio=1.0), synthetic.record(ratio=2.0, outcome=outcome),
               synthetic.record(strategy="swap_all", ratio=2.0, outcome=outcome)]
    done = script("slowdown.py", synthetic.write(tmp_path / "a.jsonl", records), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed: " + outcome.replace("_", " ") in svg_text(tmp_path, "slowdown")


def test_figures_are_the_same_bytes_every_time(script, study, tmp_path):
    for folder in ("one", "two"):
        assert script("slowdown.py", study, "--out", tmp_path / folder).returncode == 0
    for name in ("slowdown.png", "slowdown.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.fixture
def with_timeline(tmp_path):
    drawn = synthetic.record(timeline=synthetic.timeline())
    return synthetic.write(tmp_path / "t.jsonl", [synthetic.record(ratio=2.0), drawn]), drawn["key"]


def test_timeline_shows_lanes_memory_and_budget(script, with_timeline, tmp_path):
    path, key = with_timeline
    done = script("timeline.py", path, "--key", key, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    png, svg = done.stdout.split()
    with open(png, "rb") as file:
        assert file.read(8) == PNG
    text = open(svg, encoding="utf-8").read()
    for shown in ("compute", "to device", "to host", "budget 5.33 GiB", "footprint 8 GiB", "resident on the device",
                  "simulated, estimated rates", "iteration 5 of 5", "managed, ratio 1.5"):
        assert shown in text


def test_timeline_needs_no_key_where_one_record_has_one(script, with_timeline, tmp_path):
    assert script("timeline.py", with_timeline[0], "--out", tmp_path).returncode == 0


def one_line(done, code, *shown):
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")
    for text in shown:
        assert text in done.stderr


def test_timeline_of_an_unknown_key_lists_those_there_are(script, with_timeline, tmp_path):
    one_line(script("timeline.py", with_timeline[0], "--key", "nope", "--out", tmp_path), 2, "'nope'", with_timeline[1])


def test_timeline_of_a_record_without_one_is_too_little(script, with_timeline, tmp_path):
    key = synthetic.record(ratio=2.0)["key"]
    one_line(script("timeline.py", with_timeline[0], "--key", key, "--out", tmp_path), 3, "no timeline", "--timeline")


@pytest.mark.parametrize("name", ["slowdown.py", "timeline.py"])
def test_bad_files_get_one_line_and_exit_code_2(script, tmp_path, name):
    one_line(script(name, tmp_path / "absent.jsonl", "--out", tmp_path), 2, "absent.jsonl", "No such file")
    (tmp_path / "text.jsonl").write_text("hello\nworld\n")
    one_line(script(name, tmp_path / "text.jsonl", "--out", tmp_path), 2, "text.jsonl:1")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00\n")
    one_line(script(name, tmp_path / "binary.jsonl", "--out", tmp_path), 2, "binary.jsonl")


@pytest.mark.parametrize("name", ["slowdown.py", "timeline.py", "table.py"])
def test_too_little_data_gets_exit_code_3(script, tmp_path, name):
    out = [] if name == "table.py" else ["--out", tmp_path]
    one_line(script(name, synthetic.write(tmp_path / "none.jsonl", []), *out), 3, "none.jsonl")


def test_a_folder_that_cannot_be_written_gets_one_line(script, study, tmp_path):
    (tmp_path / "file").write_text("")
    done = script("slowdown.py", study, "--out", tmp_path / "file" / "x")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_table_gives_slowdowns_and_what_failed(script, study):
    done = script("table.py", study)
    assert done.returncode == 0, done.stderr
    first = done.stdout.split("\n\n")[0].splitlines()
    assert "AlexNet" in first[0] and "simulated, estimated rates" in first[0]
    rows = {line.split()[0]: line for line in first[1:]}
    assert rows["device"].split()[1:5] == ["1.00x", "1.00x", "1.00x", "no"]
    managed = (100_000_000 * 7.01 + 1.5) / (100_000_000 * 1.01 + 1.5)
    assert rows["managed"].split()[6] == f"{managed:.2f}x"


def test_markdown_table_has_a_rule_and_equal_columns(script, study):
    lines = [line for line in script("table.py", study, "--markdown").stdout.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1 and any(line.startswith("| ---") for line in lines)


@pytest.mark.parametrize("compute_ns, stalled", [(22_000_000, "50% stalled"), (44_000_000, None), (None, None)])
def test_timeline_tells_stalls_from_work(script, tmp_path, compute_ns, stalled):
    record = synthetic.record(timeline=synthetic.timeline(), compute_ns=compute_ns)
    done = script("timeline.py", synthetic.write(tmp_path / "t.jsonl", [record]), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = open(done.stdout.split()[1], encoding="utf-8").read()
    assert ("stalled" in text) == bool(stalled) and (stalled or "100% busy") in text


def machine_file(folder):
    path = folder / "machine.json"
    path.write_text('{"name": "made-up", "link_to_device_bytes_per_s": 10000000000, "link_to_host_bytes_per_s": 5000000000}',
                    encoding="utf-8")
    return path


def test_table_shows_the_share_of_the_link(script, tmp_path):
    cell = synthetic.record("vgg16", "managed", 1.5, time_ns=1_000_000_000)
    cell["samples_ns"] = [1_000_000_000] * 3
    cell["counters"] = {"first": synthetic.counted(), "last": synthetic.counted(fault_to_device_bytes=2_000_000_000,
                                                                            plan_evict_bytes=2_000_000_000)}
    path = synthetic.write(tmp_path / "a.jsonl", [cell])
    shown = script("table.py", path, "--link", machine_file(tmp_path)).stdout
    assert "machine file made-up" in shown and "1000 40 %" in shown, "2 of 5 GB/s to the host are more than 2 of 10"
    assert "%" not in script("table.py", path).stdout
    uncounted = synthetic.write(tmp_path / "b.jsonl", [synthetic.record("vgg16", "managed", 1.5, time_ns=1_000_000_000)])
    assert "1000 40 %" not in script("table.py", uncounted, "--link", machine_file(tmp_path)).stdout


def test_table_refuses_a_link_that_is_no_machine_file(script, study, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    for path in (other, tmp_path / "absent.json"):
        done = script("table.py", study, "--link", path)
        assert done.returncode == 2 and str(path) in done.stderr
