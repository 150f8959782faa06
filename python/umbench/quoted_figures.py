"""The figures that a page's comment may compute from record files (check_quotes.py): medians, slowdowns and fields of cells."""

import functools
import json
import statistics

from umbench import load, places

ROOT = places.TOP


class WrongFigure(Exception):
    """A quoted figure is wrong; the message is one line."""


class Figures:
    """The functions that a page's comment may call on the records of files. `cell_words` select cells by their strategy (with knobs that
    vary), network, b64 (batch), x1.50 (ratio), precision, fusion, mode, backend, 256MiB (workspace), insize=448 and other knobs."""

    def __init__(self, source_files):
        self.paths = source_files
        for path in source_files:
            if not (ROOT / path).is_file():
                raise WrongFigure(f"{path}: no such file")

    @functools.cached_property
    def records(self):
        """[({words that name the record}, record)]."""
        return [(_words_of_record(record, label), record) for record, label in zip(*_records_and_labels(tuple(self.paths)))]

    def cells(self, cell_words=""):
        """The records that all of the words name."""
        return [record for words_of_record, record in self.records if set(cell_words.split()) <= words_of_record]

    def cell(self, cell_words):
        """The only record that all of the words name."""
        cells = self.cells(cell_words)
        if len(cells) != 1:
            raise WrongFigure(f"'{cell_words}' names {len(cells)} cells of {', '.join(self.paths)}")
        return cells[0]

    def median(self, cell_words):
        """The median time of the later iterations of one cell, in ns. The first does not count."""
        return self._time_of_cell(load.steady_ns, cell_words)

    def least(self, cell_words):
        """The least time of the later iterations of one cell, in ns."""
        return self._time_of_cell(lambda record: min(record["samples_ns"][1:], default=None), cell_words)

    def first(self, cell_words):
        """The time of the first iteration of one cell, in ns."""
        return self._time_of_cell(lambda record: (record["samples_ns"] or [None])[0], cell_words)

    def slowdown(self, cell_words):
        """The median divided by that of `device` for the same work, at any ratio."""
        record = self.cell(cell_words)
        device_ns = _device_ns(tuple(self.paths), load.group_of(record))
        if device_ns is None:
            raise WrongFigure(f"'{cell_words}' has no cell of device beside it")
        return self.median(cell_words) / device_ns

    def field(self, cell_words, field_path):
        """A field of one record, such as field("managed b64", "memory.peak_device_bytes")."""
        return _value_at(self.cell(cell_words), field_path)

    def at(self, field_path):
        """A value of a JSON document, such as at("uvm.fault_ns")."""
        return _value_at(_read_json(self.paths[0]), field_path)

    def line(self, field_path, **field_values):
        """A value of the line of a JSON Lines file that has these fields, such as line("time_ratio", network="vgg16", batch=64)."""
        entries = [entry for entry in _read_json_lines(self.paths[0]) if all(entry.get(name) == value for name, value in field_values.items())]
        if len(entries) != 1:
            raise WrongFigure(f"{field_values} names {len(entries)} lines of {self.paths[0]}")
        return _value_at(entries[0], field_path)

    def outcome(self, cell_words):
        return self.cell(cell_words)["outcome"]

    def _time_of_cell(self, time_of, cell_words):
        """A time of one cell. Throws WrongFigure if it has none."""
        time_ns = time_of(self.cell(cell_words))
        if time_ns is None:
            raise WrongFigure(f"'{cell_words}' has no time: {self.cell(cell_words)['outcome']}")
        return time_ns


def _value_at(document, field_path):
    """The value at a path of names and indices such as "uvm.fault_ns"."""
    value = document
    for name_or_index in field_path.split("."):
        try:
            value = value[int(name_or_index) if isinstance(value, list) else name_or_index]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise WrongFigure(f"there is no {field_path}") from error
    return value


@functools.lru_cache(maxsize=None)
def _records_and_labels(record_files):
    """(records, their labels) of the files."""
    records = load.read_records([ROOT / path for path in record_files])
    return records, load.strategy_labels(records)


def _words_of_record(record, label):
    """{word} by which Figures.cells() finds a record. `label` is that of load.strategy_labels()."""
    workspace_cap_bytes = record.get("workspace_cap_bytes")
    words = {record["network"], record["network"].partition("#")[0], f"b{record['batch']}", record["strategy"], label,
             record["precision"], record["fusion"], record["mode"], record["backend"], record["outcome"],
             record["pass"]}
    words |= {f"{name}={value}" for name, value in (record.get("network_knobs") or {}).items()}
    words |= {f"{name}={value}" for name, value in (record.get("strategy_knobs") or {}).items()}
    words |= {f"{workspace_cap_bytes >> 20}MiB"} if workspace_cap_bytes else set()
    return words | ({f"x{record['ratio']:.2f}"} if record["ratio"] is not None else set())


@functools.lru_cache(maxsize=None)
def _device_ns_by_group(record_files):
    return load.baseline_ns_by_group(_records_and_labels(record_files)[0])


def _device_ns(record_files, group):
    return load.baseline_ns_of_group(group, _device_ns_by_group(record_files))


@functools.lru_cache(maxsize=None)
def _read_json(path):
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=None)
def _read_json_lines(path):
    return [json.loads(line) for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]


FUNCTIONS = {name: __builtins__[name] if isinstance(__builtins__, dict) else getattr(__builtins__, name)
         for name in ("len", "sum", "min", "max", "sorted", "abs", "round", "set")}
FUNCTIONS["median_of"] = statistics.median_high
FUNCTIONS["steady_ns"] = load.steady_ns


@functools.lru_cache(maxsize=None)
def evaluate(expression, source_files):
    """Evaluates an expression; returns [value], also if it has a single one. Throws WrongFigure."""
    figures = Figures(source_files)
    function_by_name = {name: getattr(figures, name) for name in ("cells", "cell", "median", "least", "first", "slowdown", "field",
                                                                  "at", "line", "outcome")}
    try:
        value = eval(expression, {"__builtins__": {}} | FUNCTIONS | function_by_name)  # noqa: S307: the project's own pages
    except WrongFigure:
        raise
    except Exception as error:
        raise WrongFigure(f"{expression}: {type(error).__name__}: {error}") from error
    return value if isinstance(value, list) else [value]
