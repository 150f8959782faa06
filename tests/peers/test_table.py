import json
import subprocess
import sys

import conftest
import jsonschema
from umbench.plots import peers
import pytest
from umbench import load, peer_files


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_peers_table(*arguments):
    return subprocess.run([sys.executable, str(conftest.ROOT / "python/start.py"), "plots.peers", *map(str, arguments)],
                          capture_output=True, text=True)


def test_the_ratios_are_to_the_fastest_mode():
    row = conftest.row()
    assert (row["pytorch_ms"], row["time_ratio"], row["peak_ratio"]) == (100.0, 0.8, 0.4)
    assert row["pytorch_least_peak_bytes"] == 8 << 30 and row["floor_ratio"] == 2.0


def test_a_row_of_the_table(tmp_path):
    done = run_peers_table(write_rows(tmp_path / "rows.jsonl", [conftest.row()]))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ("NVIDIA H200, driver 580.1; PyTorch 2.11.0 with CUDA 13.0 and cuDNN 9.19.0; "
                        "umbench 0.1.0+abc with CUDA 13.0 and cuDNN 9.19.0")
    assert lines[-1] == ("| VGG-16 | 64 | fp32 | 80.00 ms (lean, CUDA graph) | 100.0 ms (CUDA graph) | 0.80 | 4.00 GiB | 10.00 GiB | 0.40 | "
                         "2.00 | 1.0e-06 | - | - |")
    assert len({line.count("|") for line in lines[2:]}) == 1


def test_what_is_missing_is_said(tmp_path):
    failed = conftest.row(umbench={"reason": "unsupported"}, floor=None, gaps=None, gap_kinds=None,
                          gradients={"reason": "no values"})
    silent = conftest.row("resnet50", 128, "bf16", modes=[], gradients=None)
    broken = conftest.row("alexnet", 512, "tf32", gradients={"to_pytorch": conftest.gradient_errors(None)})
    text = run_peers_table(write_rows(tmp_path / "rows.jsonl", [failed, silent, broken]), "--gaps", "--modes").stdout
    assert "| did not run | 100.0 ms (CUDA graph) | - | - |" in text
    assert "| ResNet-50 | 128 | bf16 | 80.00 ms (lean, CUDA graph) | did not run | - |" in text
    assert "| AlexNet | 512 |" in text and "not finite" in text


def test_errors_against_the_reference_name_it():
    gradients = conftest.row()["gradients"] | {"reference": "fp64", "umbench_to_reference": conftest.gradient_errors(),
                                               "pytorch_to_reference": conftest.gradient_errors(None)}
    row = peers.main_row(conftest.row(gradients=gradients))
    assert row[-3:] == ["1.0e-06", "1.0e-06 (fp64)", "not finite"]
    without = conftest.row()["gradients"] | {"reference": "fp64", "reference_reason": "out of memory"}
    assert peers.main_row(conftest.row(gradients=without))[-3:] == ["1.0e-06", "-", "-"]
    validator().validate(conftest.row(gradients=gradients))
    validator().validate(conftest.row(gradients=without))


def test_gaps_and_modes_on_request(tmp_path):
    text = run_peers_table(write_rows(tmp_path / "rows.jsonl", [conftest.row()]), "--gaps", "--modes").stdout
    assert "| VGG-16 | 64 | fp32 | `conv1_2` | 9.00 ms | 4.00 ms | eng\\|1 |" in text
    assert "| VGG-16 | 64 | fp32 | `convolution` | 13 | 30.00 ms | 20.00 ms | 71 % |" in text
    assert "| VGG-16 | 64 | fp32 | `pool.backward` | 5 | 10.00 ms | 6.00 ms | 29 % |" in text
    assert "`loss`" not in text, "it is below its floor"
    assert "| VGG-16 | 64 | fp32 | compiled, nchw | not done within 300 s | - |" in text


def test_the_last_line_of_a_row_counts(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", [conftest.row(), conftest.row("alexnet"),
                                           conftest.row(versions={"gpu": "another"})])
    assert [row["network"] for row in peer_files.read(path)] == ["vgg16", "alexnet"]
    assert peer_files.read(path)[0]["versions"] == {"gpu": "another"}


@pytest.mark.parametrize("line, complaint", [
    ("{", "not JSON"), ('{"kind": "record", "schema": 1}', "not a comparison"),
    ('{"kind": "peer", "schema": 1, "network": "vgg16"}', "lacks 'batch'")])
def test_foreign_lines_are_refused_with_their_number(tmp_path, line, complaint):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n" + json.dumps(conftest.row()) + "\n")
    with pytest.raises(load.BadInput, match=complaint) as error:
        peer_files.read(path)
    assert "rows.jsonl:1" in str(error.value)
    assert run_peers_table(path).returncode == load.EXIT_BAD_INPUT


def test_an_empty_file_is_too_little(tmp_path):
    done = run_peers_table(write_rows(tmp_path / "rows.jsonl", []))
    assert done.returncode == load.EXIT_TOO_LITTLE and "no row" in done.stderr


def validator():
    with open(conftest.ROOT / "results/peer.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    return jsonschema.validators.validator_for(schema)(schema)


def test_the_rows_of_these_tests_are_of_the_schema():
    validator().validate(conftest.row())
    assert not validator().is_valid(conftest.row(precision="fp16"))
    assert not validator().is_valid(conftest.row(modes=[{"way": "eager", "memory_order": "nchw"}]))


def test_kept_results_are_of_the_schema():
    for path in sorted((conftest.ROOT / "results/peers").glob("*.jsonl")):
        for row in peer_files.read(path):
            validator().validate(row)
            assert peers.main_row(row)


def test_the_documentation_names_every_field():
    def field_names(schema_part):
        if isinstance(schema_part, dict):
            properties = schema_part.get("properties")
            yield from properties if isinstance(properties, dict) else ()
        for child in schema_part.values() if isinstance(schema_part, dict) else schema_part if isinstance(schema_part, list) else ():
            yield from field_names(child)

    text = (conftest.ROOT / "results/peers/README.md").read_text(encoding="utf-8")
    fields = set(field_names(validator().schema))
    assert len(fields) > 40 and [name for name in sorted(fields) if f"`{name}`" not in text] == []
