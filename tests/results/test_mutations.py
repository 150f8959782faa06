"""Readers of record files bear whatever a file holds: they refuse it in a line or make something of it."""

import copy
import json
import random

import pytest
import synthetic
from umbench import arguments, comparison, export_formats, load, print_comparison

VALUES = [None, True, -1, 0, 1, 0.5, 1e300, float("nan"), 10**400, "", "x", [], [None], ["x"], [-1], [0, 0, 0], {}, {"a": 1}]
STATE = synthetic.gpu_state(sm_clock_mhz=1980, other_processes=0, throttled_by=["gpu_idle"])


def entries():
    whole = {"counters": {"first": synthetic.counted(), "last": synthetic.counted()}, "timeline": synthetic.timeline(),
             "observed": synthetic.observed(host_cpu_ns=1, gpu_before=STATE, gpu_after=STATE)}
    return [synthetic.environment() | {"gpu": synthetic.gpu(facts={"mig": "off"})},
            *(synthetic.record(strategy=strategy, backend=backend, **whole)
              for strategy in ("device", "managed") for backend in ("sim:h200", "cuda:0"))]


def places(part):
    """(container, name) of every value inside; of lists the first items alone."""
    names = list(part) if isinstance(part, dict) else range(min(len(part), 2)) if isinstance(part, list) else ()
    for name in names:
        yield part, name
        yield from places(part[name])


def mutate(draw, entry):
    container, name = draw.choice(list(places(entry)))
    if isinstance(container, dict) and draw.random() < 0.3:
        del container[name]
    else:
        container[name] = draw.choice(VALUES)


@pytest.fixture
def wanted(monkeypatch):
    """A function of two files that parses the command line of `compare` for them."""

    def parse(base, head):
        monkeypatch.setattr("sys.argv", ["compare", str(base), str(head), "--allow-unlike"])
        return arguments.compare("Compares.")

    return parse


@pytest.mark.parametrize("seed", range(4))
def test_nothing_in_a_file_breaks_its_readers(write, wanted, seed):
    draw, refused, base = random.Random(seed), 0, write("base.jsonl", entries())
    for _ in range(120):
        changed = copy.deepcopy(entries())
        for _ in range(draw.randint(1, 2)):
            mutate(draw, draw.choice(changed))
        path = write("changed.jsonl", changed)
        try:
            found = comparison.compare(wanted(base, path), lambda text: None)
            for show in (print_comparison.as_text, print_comparison.as_markdown, print_comparison.as_json):
                assert show(found, True)
            environments, records = load.read(path)
            for export in export_formats.FORMATS.values():
                assert export(environments, records)
            json.loads(print_comparison.as_json(found, True), parse_constant=pytest.fail)
        except (load.BadInput, load.TooLittle) as refusal:
            refused += 1
            assert "\n" not in str(refusal)
    assert 10 < refused < 120
