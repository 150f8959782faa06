#!/usr/bin/env python3
"""Small record files with the results that readers must have, for the readers in C++ and in Python.

    tests/results/cases.py DIR

writes them and DIR/index.json: {"schema": 1, "cases": [{"file", "expect", "records", "why"}, ...]}. `expect` is `accept`, `refuse` (exit
code 2, one line that names the file) or `torn` (accepted without the last line, with a warning). `records` is the number of cells that are
read (of one key the last counts), null if the file is refused. The expected results follow from docs/records.md and
results/record.schema.json.
"""

import json
import sys
from collections import namedtuple
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "plots")]
import synthetic  # noqa: E402

Case = namedtuple("Case", "name expect records data why")

ENVIRONMENT = synthetic.environment() | {"cuda_backend": False}
HOST, GPU, COUNTERS, OBSERVED = synthetic.host(), synthetic.gpu(memory_bytes=2**36), synthetic.counters(), synthetic.observed()
TERMS = dict.fromkeys(synthetic.record()["memory"]["terms"], 0) | {
    "parameters_bytes": 3 * 2**20, "parameter_gradients_bytes": 2**20, "activations_bytes": 4 * 2**20}
MEMORY = {"footprint_bytes": 2**23, "budget_bytes": 2**22, "touched_bytes": 2**23, "terms": TERMS, "device_arena_bytes": 0,
          "managed_arena_bytes": 2**23, "pinned_arena_bytes": 0, "peak_device_bytes": 2**22}
KEY = "alexnet/b2/train/none/fp32/managed/x2.00/simulated/sim:h200"
RECORD = synthetic.record("alexnet", ratio=2.0, key=KEY, batch=2, fusion="none", figures="h200", figures_digest="0123456789abcdef",
                          samples_ns=[2000, 1000, 1000, 1000, 1000], counters={"first": COUNTERS, "last": COUNTERS}, memory=MEMORY,
                          compute_ns=900)
FAILED = RECORD | {"key": KEY.replace("x2.00", "x4.00"), "ratio": 4.0, "outcome": "crashed", "reason": "made up", "samples_ns": [],
                   "counters": None}
SPAN = {"lane": "compute", "name": "conv1", "begin_ns": 0, "end_ns": 10}
TIMELINE = {"iteration": 1, "spans": [SPAN], "resident": [{"at_ns": 0, "bytes": 1}]}
ENGINE = {"op": "conv1", "engine": "made up", "time_ns": 5, "workspace_bytes": 0, "flops": 1, "bytes": 1, "parts": 1}
MEASURED = RECORD | {"key": KEY.replace("simulated/sim:h200", "capped/cuda:0"), "mode": "capped", "backend": "cuda:0",
                     "device": "made up", "simulated": False, "launch": "streams", "engines": [ENGINE]}


def json_line_bytes(entry):
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def record_file_bytes(*records, environment=ENVIRONMENT):
    return b"".join(map(json_line_bytes, [environment, *records]))


def with_value(entry, field_path, value):
    """A copy of the entry with the value at a path such as "memory.terms". Throws KeyError if there is no such path."""
    head, _, rest = field_path.partition(".")
    return entry | {head: with_value(entry[head], rest, value) if rest else value}


def without_field(entry, field_path):
    head, _, rest = field_path.partition(".")
    if rest:
        return entry | {head: without_field(entry[head], rest)}
    return {name: part for name, part in entry.items() if name != head}


class Cases:
    def __init__(self):
        self.all = []

    def add(self, name, expected_outcome, file_bytes, reason, record_count=None):
        self.all.append(Case(f"{len(self.all) + 1:03}_{name}.jsonl", expected_outcome, record_count if expected_outcome != "refuse" else None, file_bytes, reason))

    def add_record_case(self, name, expected_outcome, entry, reason):
        self.add(name, expected_outcome, record_file_bytes(entry), reason, 1)

    def add_environment_case(self, name, expected_outcome, entry, reason):
        self.add(name, expected_outcome, record_file_bytes(RECORD, environment=entry), reason, 1)


def add_cases_of_lines(cases):
    plain = record_file_bytes(RECORD, FAILED)
    half = json_line_bytes(RECORD)[:200]
    for name, expect, data, why, records in [
            ("plain", "accept", plain, "as umbench writes it", 2),
            ("empty", "accept", b"", "a file of nothing holds nothing", 0),
            ("environment_only", "accept", record_file_bytes(), "a sweep that was stopped before its first cell", 0),
            ("two_environments", "accept", record_file_bytes(RECORD) + record_file_bytes(FAILED), "resumed elsewhere", 2),
            ("key_twice", "accept", record_file_bytes(RECORD, FAILED, RECORD), "the last counts", 2),
            ("no_newline_at_the_end", "accept", plain[:-1], "a last line that parses is a record", 2),
            ("environment_without_newline", "accept", record_file_bytes()[:-1], "as well", 0),
            ("torn", "torn", record_file_bytes(RECORD) + half, "a crash while appending", 1),
            ("torn_after_one_byte", "torn", record_file_bytes(RECORD) + b"{", "as well", 1),
            ("torn_within_a_character", "torn", record_file_bytes(RECORD) + '{"kind":"record","key":"é'.encode()[:-1], "UTF-8 may be torn", 1),
            ("torn_environment", "torn", json_line_bytes(ENVIRONMENT)[:60], "before anything else was written", 0),
            ("torn_environment_after_one_byte", "torn", b"{", "as well", 0),
            ("torn_second_environment", "torn", record_file_bytes(RECORD) + json_line_bytes(ENVIRONMENT)[:60], "while resuming", 1),
            ("torn_within_an_escape", "torn", record_file_bytes(RECORD) + b'{"kind":"record","key":"\\u00', "as well", 1),
            ("torn_zeros", "torn", record_file_bytes(RECORD) + b"\0" * 50, "what a file system may leave after a power cut", 1),
            ("torn_in_the_middle", "refuse", record_file_bytes(RECORD) + half + b"\n" + json_line_bytes(FAILED), "only the last line may be torn", 0),
            ("torn_with_newline", "refuse", record_file_bytes(RECORD) + half + b"\n", "a newline is written last", 0),
            ("zeros_in_the_middle", "refuse", record_file_bytes(RECORD) + b"\0" * 50 + b"\n" + json_line_bytes(FAILED), "not JSON", 0),
            ("diary", "refuse", b"dear diary\n", "no record file", 0),
            ("diary_without_newline", "refuse", b"dear diary", "no torn line of ours", 0),
            ("other_json_without_newline", "refuse", b'{"kind":"sweep"', "no torn line of ours", 0),
            ("no_environment", "refuse", json_line_bytes(RECORD), "the first line is the environment", 0),
            ("record_before_environment", "refuse", json_line_bytes(RECORD) + json_line_bytes(ENVIRONMENT), "as well", 0),
            ("blank_line", "refuse", record_file_bytes(RECORD) + b"\n" + json_line_bytes(FAILED), "a line is an environment or a record", 0),
            ("blank_last_line", "refuse", plain + b"\n", "as well", 0),
            ("spaces_only", "refuse", plain + b"  \n", "as well", 0),
            ("newline_only", "refuse", b"\n", "as well", 0),
            ("carriage_returns", "accept", plain.replace(b"\n", b"\r\n"), "whitespace of JSON", 2),
            ("spaces_within", "accept", record_file_bytes() + json.dumps(RECORD).encode() + b" \n", "whitespace of JSON", 1),
            ("byte_order_mark", "refuse", b"\xef\xbb\xbf" + plain, "no JSON (RFC 8259, 8.1)", 0),
            ("utf16", "refuse", plain.decode().encode("utf-16"), "not UTF-8", 0),
            ("latin1", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b"alexnet", b"\xe4lexnet") + json_line_bytes(FAILED), "not UTF-8", 0),
            ("overlong_utf8", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"h200"', b'"h\xc0\xb2"') + json_line_bytes(FAILED), "not UTF-8", 0),
            ("surrogate_in_utf8", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"h200"', b'"\xed\xa0\x80"') + json_line_bytes(FAILED), "not UTF-8", 0),
            ("half_a_surrogate", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"h200"', b'"\\ud800"'), "no text", 0),
            ("other_half_of_a_surrogate", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"h200"', b'"\\uDC00"'), "no text", 0),
            ("a_surrogate_pair", "accept", record_file_bytes() + json_line_bytes(RECORD).replace(b'"h200"', b'"\\ud83d\\ude00"'), "a character", 1),
            ("line_separators_in_a_text", "accept", record_file_bytes() + json.dumps(RECORD | {"device": "a\u2028b\u2029c\u0085d"},
                                                                        ensure_ascii=False).encode() + b"\n", "a line ends at \\n", 1),
            ("form_feed_between", "refuse", record_file_bytes() + b"\f" + json_line_bytes(RECORD), "no whitespace of JSON", 0),
            ("control_character_in_a_text", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b"h200", b"h\x01"), "JSON wants \\u0001", 0),
            ("escaped_control_character", "accept", record_file_bytes(with_value(FAILED, "reason", "\x01")), "a text", 1),
            ("two_in_a_line", "refuse", record_file_bytes()[:-1] + json_line_bytes(RECORD), "one a line", 0),
            ("trailing_comma", "refuse", record_file_bytes() + json_line_bytes(RECORD)[:-2] + b",}\n", "not JSON", 0),
            ("comment", "refuse", b"# mine\n" + plain, "not JSON", 0),
            ("single_quotes", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"', b"'"), "not JSON", 0),
            ("array", "refuse", record_file_bytes() + b"[1]\n", "neither an environment nor a record", 0),
            ("number", "refuse", record_file_bytes() + b"1\n", "as well", 0),
            ("null", "refuse", record_file_bytes() + b"null\n", "as well", 0),
            ("number_without_newline", "refuse", record_file_bytes() + b"1", "a last line that parses is judged as one", 0),
            ("nested_deeply", "refuse", record_file_bytes() + b"[" * 100_000 + b"\n", "not JSON", 0),
            ("nested_deeply_and_closed", "refuse", record_file_bytes() + b"[" * 100_000 + b"]" * 100_000 + b"\n", "no record", 0),
            ("nested_deeply_in_a_field", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"rules":null', b'"rules":' + b"[" * 9999 + b"]" * 9999),
             "rules are an object", 0),
            ("number_of_5000_digits", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"batch":2', b'"batch":' + b"9" * 5000), "too large", 0),
            ("nan", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"ratio":2.0', b'"ratio":NaN'), "not JSON", 0),
            ("infinity", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"ratio":2.0', b'"ratio":Infinity'), "not JSON", 0),
            ("field_twice", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"batch":2', b'"batch":2,"batch":3'), "which of them?", 0),
            ("field_twice_alike", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"batch":2', b'"batch":2,"batch":2'), "as well", 0),
            ("inner_field_twice", "refuse", record_file_bytes() + json_line_bytes(RECORD).replace(b'"insize":224', b'"insize":224,"insize":32'), "as well", 0),
            ("other_order_of_fields", "accept", record_file_bytes(dict(reversed(RECORD.items()))), "JSON has none", 1),
            ("unknown_kind", "refuse", record_file_bytes(RECORD | {"kind": "sweep"}), "neither an environment nor a record", 0)]:
        cases.add(name, expect, data, why, records)


REQUIRED = tuple(RECORD)
NEVER_NULL = ("key", "network", "batch", "pass", "sgd", "network_knobs", "fusion", "precision", "strategy", "strategy_knobs",
              "memory_order", "family", "bits", "borrowed_figures", "observed", "mode", "backend", "iterations", "outcome", "samples_ns", "memory", "simulated")


def add_cases_of_records(cases):
    for name in REQUIRED:
        cases.add_record_case(f"lacks_{name}", "refuse", without_field(RECORD, name), f"'{name}' is required")
    for name in NEVER_NULL:
        cases.add_record_case(f"null_{name}", "refuse", RECORD | {name: None}, f"'{name}' is never null")
    cases.add_record_case("unknown_field", "refuse", RECORD | {"colour": "red"}, "what a reader does not know it cannot keep")
    for path in ("memory", "memory.terms", "counters.last", "observed"):
        cases.add_record_case(f"unknown_field_in_{path}", "refuse", with_value(RECORD, path + ".colour", 1), "as well")
    for path in ("memory.peak_device_bytes", "memory.terms", "memory.terms.inputs_bytes", "counters.first", "counters.last.faults",
                 "observed.reason"):
        cases.add_record_case(f"lacks_{path}", "refuse", without_field(RECORD, path), "required")
    for schema in (True, 1.0, "1", 0, 2, None, [1]):
        cases.add_record_case(f"schema_{schema}", "refuse", RECORD | {"schema": schema}, "the schema is the number 1")
    for name, value, why in [
            ("ok_without_samples", {"samples_ns": []}, "ok has samples"), ("ok_with_reason", {"reason": "made up"}, "ok has no reason"),
            ("ok_without_ratio", {"ratio": None}, "ok has a ratio"), ("ok_without_device", {"device": None}, "ok has a device"),
            ("ok_without_calibrated", {"calibrated": None}, "ok knows it"),
            ("simulated_on_cuda", {"backend": "cuda:0"}, "the backend says it"), ("simulated_engines", {"engines": []}, "null where simulated"),
            ("simulated_launch", {"launch": "streams"}, "null where simulated"),
            ("sample_5.0", {"samples_ns": [5.0]}, "a whole number"), ("sample_negative", {"samples_ns": [-1]}, "no time"),
            ("sample_true", {"samples_ns": [True]}, "no number"), ("sample_text", {"samples_ns": ["5"]}, "no number"),
            ("sample_too_large", {"samples_ns": [2**63]}, "beyond 63 bits"), ("sample_1e3", {"samples_ns": [1e3]}, "a whole number"),
            ("samples_null", {"samples_ns": [None]}, "no number"), ("samples_object", {"samples_ns": {"0": 5}}, "no list"),
            ("ratio_0", {"ratio": 0}, "above 0"), ("ratio_negative", {"ratio": -1.5}, "above 0"), ("ratio_text", {"ratio": "2"}, "no number"),
            ("ratio_1e308", {"ratio": 1e308}, "no quotient of two byte counts"), ("batch_0", {"batch": 0}, "at least 1"),
            ("batch_2.5", {"batch": 2.5}, "a whole number"), ("batch_true", {"batch": True}, "no number"),
            ("iterations_0", {"iterations": 0}, "at least 1"), ("workspace_cap_0", {"workspace_cap_bytes": 0}, "at least 1"),
            ("workspace_cap_negative", {"workspace_cap_bytes": -1}, "at least 1"), ("digest_xyz", {"digest": "xyz"}, "16 digits"),
            ("digest_upper_case", {"digest": "ABCDEF0123456789"}, "lower case"), ("digest_number", {"digest": 12}, "a text"),
            ("digest_17_digits", {"digest": "0" * 17}, "16 digits"), ("loss_text", {"loss": "2.3"}, "no number"),
            ("outcome_unknown", {"outcome": "fine"}, "one of the list"), ("pass_unknown", {"pass": "both"}, "one of the list"),
            ("fusion_unknown", {"fusion": "most"}, "one of the list"), ("precision_unknown", {"precision": "fp8"}, "one of the list"),
            ("mode_unknown", {"mode": "real"}, "one of the list"), ("backend_unknown", {"backend": "tpu:0"}, "sim: or cuda:"),
            ("backend_without_name", {"backend": "sim:"}, "a name follows"), ("launch_unknown", {"launch": "magic"}, "one of the list"),
            ("sgd_1", {"sgd": 1}, "true or false"), ("simulated_text", {"simulated": "yes"}, "true or false"),
            ("knob_text", {"network_knobs": {"insize": "224"}}, "no number"), ("knob_2.5", {"strategy_knobs": {"ahead": 2.5}}, "a whole number"),
            ("knobs_list", {"strategy_knobs": []}, "an object"), ("compute_negative", {"compute_ns": -1}, "no time"),
            ("counters_text", {"counters": "none"}, "an object or null"), ("memory_list", {"memory": []}, "an object"),
            ("timeline_list", {"timeline": []}, "an object or null"),
            ("timeline_span_lacks_name", {"timeline": with_value(TIMELINE, "spans", [without_field(SPAN, "name")])}, "required"),
            ("timeline_lane_unknown", {"timeline": with_value(TIMELINE, "spans", [SPAN | {"lane": "disk"}])}, "one of the list"),
            ("rules_text", {"rules": "managed"}, "an object or null")]:
        cases.add_record_case(name, "refuse", RECORD | value, why)
    for path, value in [("memory.footprint_bytes", -1), ("memory.footprint_bytes", 1.5), ("memory.footprint_bytes", None),
                        ("memory.budget_bytes", None), ("memory.peak_device_bytes", "1"), ("memory.terms.inputs_bytes", -5),
                        ("counters.last.faults", -1), ("counters.last.faults", "0"), ("counters.last.amplification", -0.5)]:
        cases.add_record_case(f"{path}_{value}", "refuse", with_value(RECORD, path, value), "no amount")
    for name, entry, why in [
            ("failed", FAILED, "a cell that failed"), ("sample_0", RECORD | {"samples_ns": [0, 0, 0]}, "too short for the clock"),
            ("one_sample", RECORD | {"samples_ns": [7]}, "one iteration"), ("sample_most", RECORD | {"samples_ns": [2**63 - 1]}, "63 bits"),
            ("ratio_integer", RECORD | {"ratio": 2}, "a number"), ("loss_1e30", RECORD | {"loss": 1e30}, "training diverged"),
            ("loss_negative", RECORD | {"loss": -1.5}, "a number"), ("digest", RECORD | {"digest": "0123456789abcdef"}, "16 digits"),
            ("counters_null", RECORD | {"counters": None, "counters_reason": "not counted"}, "not observed"),
            ("counter_null", with_value(RECORD, "counters.last.faults", None), "not observed"),
            ("amplification", with_value(RECORD, "counters.last.amplification", 1.5), "follows from the others"),
            ("amplification_null", with_value(RECORD, "counters.last.amplification", None), "not observed"),
            ("timeline", RECORD | {"timeline": TIMELINE}, "a timeline"),
            ("timeline_empty", RECORD | {"timeline": TIMELINE | {"spans": [], "resident": []}}, "of nothing"),
            ("measured", MEASURED, "on a GPU"), ("measured_cuda_graph", MEASURED | {"launch": "cuda_graph"}, "replayed"),
            ("measured_cap", MEASURED | {"workspace_cap_bytes": 2**28}, "capped workspaces"),
            ("knob", RECORD | {"strategy_knobs": {"ahead": 2}}, "a knob"), ("unicode", RECORD | {"device": "Grafikkarte größer"}, "UTF-8"),
            ("infeasible", FAILED | {"outcome": "infeasible"}, "cannot work within the budget")]:
        cases.add_record_case(name, "accept", entry, why)
    for name, value, why in [
            ("failed_without_reason", {"reason": None}, "a failure has a reason"), ("failed_empty_reason", {"reason": ""}, "as well"),
            ("failed_reason_of_two_lines", {"reason": "a\nb"}, "one line")]:
        cases.add_record_case(name, "refuse", FAILED | value, why)
    for name, value, why in [
            ("measured_on_sim", {"backend": "sim:h200"}, "the backend says it"), ("measured_simulated_mode", {"mode": "simulated"}, "the mode says it"),
            ("engine_lacks_op", {"engines": [without_field(ENGINE, "op")]}, "required"),
            ("engine_parts_0", {"engines": [ENGINE | {"parts": 0}]}, "at least 1"),
            ("engine_lacks_bytes", {"engines": [without_field(ENGINE, "bytes")]}, "required")]:
        cases.add_record_case(name, "refuse", MEASURED | value, why)


def add_cases_of_environments(cases):
    for name in ENVIRONMENT:
        cases.add_environment_case(f"environment_lacks_{name}", "refuse", without_field(ENVIRONMENT, name), f"'{name}' is required")
    for name in ("cpu", "cores"):
        cases.add_environment_case(f"host_lacks_{name}", "refuse", without_field(ENVIRONMENT, f"host.{name}"), "required")
    for name, value, why in [
            ("unknown_field", {"colour": "red"}, "what a reader does not know it cannot keep"), ("schema_true", {"schema": True}, "the number 1"),
            ("schema_2", {"schema": 2}, "of a newer umbench"), ("created_yesterday", {"created": "yesterday"}, "ISO 8601"),
            ("cuda_backend_1", {"cuda_backend": 1}, "true or false"), ("umbench_number", {"umbench": 1}, "a text"),
            ("host_null", {"host": None}, "an object"), ("gpu_text", {"gpu": "NVIDIA"}, "an object or null"),
            ("gpu_lacks_name", {"gpu": without_field(GPU, "name")}, "required"), ("gpu_memory_negative", {"gpu": GPU | {"memory_bytes": -1}}, "no amount"),
            ("nvidia_uvm_number", {"nvidia_uvm": {"uvm_ats_mode": 1}}, "texts"), ("facts_number", {"host": HOST | {"facts": {"swap": 1}}}, "texts")]:
        cases.add_environment_case(f"environment_{name}", "refuse", ENVIRONMENT | value, why)
    for name, value, why in [
            ("gpu", {"gpu": GPU}, "a GPU"), ("facts", {"host": HOST | {"facts": {"swap": "0 kB"}, "facts_missing": {"governor": "made up"}}}, "facts"),
            ("gpu_facts", {"gpu": GPU | {"facts": {"mig": "off"}}}, "facts"), ("nvidia_uvm", {"nvidia_uvm": {"uvm_ats_mode": "1"}}, "parameters")]:
        cases.add_environment_case(f"environment_{name}", "accept", ENVIRONMENT | value, why)


def all_cases():
    cases = Cases()
    add_cases_of_lines(cases)
    add_cases_of_records(cases)
    add_cases_of_environments(cases)
    return cases.all


def write_cases(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = all_cases()
    for case in found:
        (folder / case.name).write_bytes(case.data)
    index = {"schema": 1, "cases": [{"file": case.name, "expect": case.expect, "records": case.records, "why": case.why}
                                    for case in found]}
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: cases.py DIR")
    print(f"{len(write_cases(sys.argv[1]))} cases in {sys.argv[1]}")
