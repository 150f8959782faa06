"""Traces of programs that never ran, for tests: each call adds what the driver would have done."""

import json

MS = 1_000_000
BLOCK = 2 * 1024 * 1024
FIRST = 1000  # block of the first allocation


class TraceBuilder:
    def __init__(self, gpu="NVIDIA H200", program=("./program",), process=7):
        self.lines = [{"kind": "environment", "schema": 1, "tool": "umbench trace", "process": process, "parent": 1, "program": list(program),
                       "start_ns": 0, "wall_clock_ns": 0, "kernel_release": "", "driver": ""},
                      {"kind": "gpu", "gpu": 0, "name": gpu, "bytes": 150 * 10**9, "concurrent_managed_access": 1, "pageable_memory_access": 0}]
        self.names = {}
        self.launches = {}
        self.now = 0

    def id_of_name(self, text):
        if text not in self.names:
            self.names[text] = len(self.names)
            self.lines.append({"kind": "name", "id": self.names[text], "name": text})
        return self.names[text]

    def allocate(self, block_count=64, first_block=FIRST, memory="managed", callers=()):
        self.lines.append({"kind": "allocation", "at_ns": self.now, "address": first_block * BLOCK, "bytes": block_count * BLOCK, "device": 0,
                           "memory": memory, "called": [self.id_of_name(frame) for frame in callers]})
        return self

    def _add(self, kind, ms, runs, granule_runs, **fields):
        line = {"kind": kind, "begin_ns": self.now, "end_ns": self.now + round(ms * MS)} | fields
        line |= {name: run if isinstance(run[0], list) else [run] for name, run in runs.items()}
        if granule_runs:
            line["granules"] = granule_runs
        self.lines.append(line)
        self.now += round(ms * MS) + MS
        return self

    def kernel(self, name="k", ms=10, granule_runs=None, waiting_ms=None, gpu=0, batches=100, **runs):
        launch = self.launches.get((gpu, name), 0)
        self.launches[gpu, name] = launch + 1
        return self._add("kernel", ms, runs, granule_runs, name=self.id_of_name(name), launch=launch, gpu=gpu, stream=7,
                         waiting_ns=round((0.9 * ms if waiting_ms is None else waiting_ms) * MS), batches=batches)

    def quiet(self, name="k", launch_count=1, ms=0.1):
        self.lines.append({"kind": "quiet", "gpu": 0, "begin_ns": self.now, "end_ns": self.now + round(launch_count * ms * MS),
                           "kernels": [[self.id_of_name(name), launch_count, round(launch_count * ms * MS)]], "copies": {}})
        self.now += round(launch_count * ms * MS) + MS
        return self

    def host(self, ms=10, granule_runs=None, place="program+0x9 consume", **runs):
        return self._add("host", ms, runs, granule_runs, place=self.id_of_name(place))

    def prefetched(self, ms=3, granule_runs=None, **runs):
        return self._add("prefetched", ms, runs, granule_runs)

    def pause(self, ms=1000, name=None, launch_count=1, **sums):
        """Nothing is counted but by the driver, while launches go on."""
        line = {"kind": "uncounted", "begin_ns": self.now, "end_ns": self.now + round(ms * MS)}
        self.lines.append(line | {"to_gpus": 0, "to_host": 0, "gpu_faults": 0, "cpu_faults": 0} | sums)
        if name:
            self.quiet(name, launch_count, ms / launch_count)
            self.lines[-1]["kind"] = "unseen"
        else:
            self.now += round(ms * MS)
        return self

    def hint(self, call="prefetch", device=0, block_count=64, first_block=FIRST, at=None, callers=("program+0x5 setup",)):
        numbers = [self.id_of_name(frame) for frame in callers]
        at = self.now if at is None else at
        self.lines.append({"kind": "hint", "at_ns": at, "until_ns": at + 1000, "call": call, "address": first_block * BLOCK,
                           "bytes": block_count * BLOCK, "device": "host" if device is None else device, "called": numbers})
        return self

    def lacking(self, what):
        self.lines.append({"kind": "lacking", "what": what})
        return self

    def write(self, path, has_end=True, uncounted_times=(), driver_sums=None):
        """`uncounted_times`: (kernel, launch, begin, end) of a second run in which nothing was counted; `driver_sums`: its own sums."""
        lines = self.lines + ([{"kind": "end", "at_ns": self.now, "lost_records": 0} | (driver_sums or {})] if has_end else [])
        if uncounted_times:
            lines.append(self.lines[0] | {"role": "times"})
            names = {name: number for number, name in enumerate(dict.fromkeys(time[0] for time in uncounted_times))}
            lines += [{"kind": "name", "id": number, "name": name} for name, number in names.items()]
            lines += [{"kind": "timed", "name": names[name], "launch": launch, "gpu": 0, "begin_ns": begin, "end_ns": end}
                      for name, launch, begin, end in uncounted_times]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path


def byte_run(block_count=64, share=1.0, first_block=FIRST):
    """A run of blocks, of which a share moves."""
    return [first_block, block_count, round(block_count * share * BLOCK)]


def fault_run(fault_count, block_count=64, first_block=FIRST):
    return [first_block, block_count, fault_count]
