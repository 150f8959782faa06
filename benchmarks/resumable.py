"""A file of measurements, a line of JSON each, written as soon as it is there: a run that ends early goes on behind it."""

import json


def held(path):
    """The lines of a file; none if there is no such file."""
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run(path, tasks, fields, measure, stopped=lambda: False):
    """Appends what `measure` says of each task whose `fields` no line has yet, until `stopped` says so. Prints it."""
    def key(of):
        return tuple(of[name] for name in fields)

    done = {key(line) for line in held(path)}
    for task in tasks:
        if key(task) in done:
            continue
        if stopped():
            return
        line = measure(task)
        print(json.dumps(line), flush=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
