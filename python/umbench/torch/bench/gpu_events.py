"""Measures the kernels and copies of one step by PyTorch's profiler, and lists the contents of GPU memory at the peak."""

import linecache
import os
from collections import Counter

import torch

from .. import private

WARM_UP, CONSECUTIVE = 8, 4  # steps that bring the GPU to the clock of training, and steps that are then profiled together
PYTORCH_FOLDER = os.path.dirname(torch.__file__)


def profile_steps(run_step):
    """Profiles some steps; returns a dictionary. `kernel_ms`: milliseconds of all, generated and optimizer kernels, and their count. `kernels`:
    [[name, count, milliseconds]] of those that take longest. `copies`: milliseconds of copies on separate streams (ms), of their part
    beside kernels (hidden_ms) and of those to the host (out_ms), their count, and milliseconds of the step (step_ms). `in_a_row`: mean
    milliseconds of consecutive steps and of their kernels, since a GPU at its power limit lowers its clock."""
    found = times_by_kind(record_gpu_events(run_step))
    for _ in range(WARM_UP):
        run_step()
    events = record_gpu_events(lambda: [run_step() for _ in range(CONSECUTIVE)])
    kernels = [e for e in events if e[1] == main_stream_of(events) and not is_copy(e[0])]
    busy = total_length(merged_spans([(begin, end) for _, _, begin, end in kernels]))
    span = max(e[3] for e in kernels) - min(e[2] for e in kernels)
    return found | {"in_a_row": {"steps": CONSECUTIVE, "ms": span / 1e3 / CONSECUTIVE, "kernel_ms": busy / 1e3 / CONSECUTIVE}}


def record_gpu_events(run):
    """[(name, stream, begin, end)] in microseconds of the GPU's kernels and copies during run()."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return [(e.name, e.device_resource_id, e.time_range.start, e.time_range.end) for e in profile.events()
            if e.device_type == torch.autograd.DeviceType.CUDA and e.time_range.end > e.time_range.start]


def main_stream_of(events):
    """The stream with the most kernels."""
    launched = [stream for name, stream, *_ in events if not is_copy(name)]
    return max(set(launched), key=launched.count, default=None)


def times_by_kind(events):
    """{"kernel_ms", "kernels", "copies"} of events, as profile_steps() returns them; no "copies" if there are none."""
    main = main_stream_of(events)
    kernels = [e for e in events if e[1] == main and not is_copy(e[0])]
    copies = [e for e in events if e[1] != main and is_copy(e[0])]
    generated = sum(end - begin for name, _, begin, end in kernels if name.startswith("triton_"))
    optimizer = sum(end - begin for name, _, begin, end in kernels if "multi_tensor_apply" in name)
    busy = merged_spans([(begin, end) for _, _, begin, end in kernels])
    found = {"kernel_ms": {"all": total_length(busy) / 1e3, "generated": generated / 1e3, "optimizer": optimizer / 1e3, "count": len(kernels)},
             "kernels": kernels_with_most_time(kernels)}
    if copies:
        found["copies"] = {"ms": sum(e[3] - e[2] for e in copies) / 1e3, "hidden_ms": sum(overlap_length(e[2], e[3], busy) for e in copies) / 1e3,
                           "count": len(copies), "out_ms": sum(e[3] - e[2] for e in copies if "DtoH" in e[0]) / 1e3,
                           "step_ms": (max(e[3] for e in events) - min(e[2] for e in events)) / 1e3}
    return found


def kernels_with_most_time(kernel_events, max_kernels=30):
    """[[name, number of launches, milliseconds of all]] of the kernels that take most, at most `max_kernels` of them."""
    by_name = {}
    for name, _, begin, end in kernel_events:
        count, ms = by_name.get(name, (0, 0.0))
        by_name[name] = count + 1, ms + (end - begin) / 1e3
    return [[name[:90], count, round(ms, 4)] for name, (count, ms) in sorted(by_name.items(), key=lambda each: -each[1][1])[:max_kernels]]


def is_copy(event_name):
    return event_name.startswith(("Memcpy", "Memset")) or event_name == "umbench_copy"  # the kernel of kernel_copies.py


def merged_spans(spans):
    """[(begin, end)] of the time that the spans cover, sorted and without overlaps."""
    found = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def total_length(spans):
    """The length of all `spans`, which do not overlap."""
    return sum(end - begin for begin, end in spans)


def overlap_length(begin, end, spans):
    """The length of the part of the span from `begin` to `end` that lies within `spans`, which do not overlap."""
    return sum(max(0, min(end, other_end) - max(begin, other_begin)) for other_begin, other_end in spans)


def blocks_at_peak(run_step, max_entries=40):
    """Runs a step. Returns {"allocated": bytes, "blocks": [(MiB together, number, MiB of each, line of code)]} of memory at its peak. Blocks
    of the same size and line are one entry."""
    allocations = allocations_at_peak(private.allocator_events_of(run_step))
    counts = Counter((round(event["size"] / 2**20, 2), code_line_of(event)) for event in allocations)
    blocks = sorted(((round(count * size, 2), count, size, line) for (size, line), count in counts.items()), reverse=True)
    return {"allocated": sum(event["size"] for event in allocations), "blocks": blocks[:max_entries]}


def allocations_at_peak(allocator_events):
    """Those of the allocator's events that allocated the blocks alive at the peak."""
    alive, size, peak, at_peak = {}, 0, 0, []
    for event in allocator_events:
        if event["action"] == "alloc":
            alive[event["addr"]] = event
            size += event["size"]
        elif event["action"] == "free_completed" and event["addr"] in alive:
            size -= alive.pop(event["addr"])["size"]
        if size > peak:
            peak, at_peak = size, list(alive.values())
    return at_peak


def code_line_of(allocator_event):
    """The innermost line of code outside PyTorch from which an event came."""
    for frame in allocator_event.get("frames", ()):
        if not frame["filename"].startswith(PYTORCH_FOLDER):
            return linecache.getline(frame["filename"], frame["line"]).strip()[:110] or frame["name"]
    return ""
