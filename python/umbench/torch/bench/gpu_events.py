"""Measures the kernels and copies of one step by PyTorch's profiler, and lists the contents of GPU memory at the peak."""

import linecache
import os
from collections import Counter, namedtuple

import torch

from .. import private

WARM_UP_STEPS, CONSECUTIVE_STEPS = 8, 4  # steps that bring the GPU to the clock of training, and steps that are then profiled together
PYTORCH_FOLDER = os.path.dirname(torch.__file__)

GpuEvent = namedtuple("GpuEvent", "name stream begin_us end_us")  # a kernel or copy


def profile_steps(run_step):
    """Profiles some steps; returns a dictionary. `kernel_ms`: milliseconds of all, generated and optimizer kernels, and their count. `kernels`:
    [[name, count, milliseconds]] of those that take longest. `copies`: milliseconds of copies on separate streams (ms), of their part
    beside kernels (hidden_ms) and of those to the host (out_ms), their count, and milliseconds of the step (step_ms). `in_a_row`: mean
    milliseconds of consecutive steps and of their kernels, since a GPU at its power limit lowers its clock."""
    summary = summarize_times(record_gpu_events(run_step))
    for _ in range(WARM_UP_STEPS):
        run_step()
    events = record_gpu_events(lambda: [run_step() for _ in range(CONSECUTIVE_STEPS)])
    kernels = [e for e in events if e.stream == main_stream_of(events) and not is_copy(e.name)]
    busy_us = total_length(merged_spans([(begin_us, end_us) for _, _, begin_us, end_us in kernels]))
    span_us = max(e.end_us for e in kernels) - min(e.begin_us for e in kernels)
    return summary | {"in_a_row": {"steps": CONSECUTIVE_STEPS, "ms": span_us / 1e3 / CONSECUTIVE_STEPS,
                                   "kernel_ms": busy_us / 1e3 / CONSECUTIVE_STEPS}}


def record_gpu_events(run):
    """[GpuEvent] of the GPU's kernels and copies during run()."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return [GpuEvent(e.name, e.device_resource_id, e.time_range.start, e.time_range.end) for e in profile.events()
            if e.device_type == torch.autograd.DeviceType.CUDA and e.time_range.end > e.time_range.start]


def main_stream_of(events):
    """The stream with the most kernels."""
    stream_of_each_kernel = [stream for name, stream, *_ in events if not is_copy(name)]
    return max(set(stream_of_each_kernel), key=stream_of_each_kernel.count, default=None)


def summarize_times(events):
    """{"kernel_ms", "kernels", "copies"} of events, as profile_steps() returns them; no "copies" if there are none."""
    main_stream = main_stream_of(events)
    kernels = [e for e in events if e.stream == main_stream and not is_copy(e.name)]
    copies = [e for e in events if e.stream != main_stream and is_copy(e.name)]
    generated_us = sum(end_us - begin_us for name, _, begin_us, end_us in kernels if name.startswith("triton_"))
    optimizer_us = sum(end_us - begin_us for name, _, begin_us, end_us in kernels if "multi_tensor_apply" in name)
    busy_spans = merged_spans([(begin_us, end_us) for _, _, begin_us, end_us in kernels])
    summary = {"kernel_ms": {"all": total_length(busy_spans) / 1e3, "generated": generated_us / 1e3,
                             "optimizer": optimizer_us / 1e3, "count": len(kernels)},
               "kernels": kernels_with_most_time(kernels)}
    if copies:
        summary["copies"] = {"ms": sum(e.end_us - e.begin_us for e in copies) / 1e3,
                             "hidden_ms": sum(overlap_length(e.begin_us, e.end_us, busy_spans) for e in copies) / 1e3,
                             "count": len(copies), "out_ms": sum(e.end_us - e.begin_us for e in copies if "DtoH" in e.name) / 1e3,
                             "step_ms": (max(e.end_us for e in events) - min(e.begin_us for e in events)) / 1e3}
    return summary


def kernels_with_most_time(kernel_events, max_kernels=30):
    """[[name, number of launches, milliseconds of all]] of the kernels that take most, at most `max_kernels` of them."""
    count_and_ms_of_name = {}
    for name, _, begin_us, end_us in kernel_events:
        launch_count, ms = count_and_ms_of_name.get(name, (0, 0.0))
        count_and_ms_of_name[name] = launch_count + 1, ms + (end_us - begin_us) / 1e3
    return [[name[:90], launch_count, round(ms, 4)]
            for name, (launch_count, ms) in sorted(count_and_ms_of_name.items(), key=lambda name_and_total: -name_and_total[1][1])[:max_kernels]]


def is_copy(event_name):
    return event_name.startswith(("Memcpy", "Memset")) or event_name == "umbench_copy"  # the kernel of kernel_copies.py


def merged_spans(spans):
    """[(begin, end)] of the time that the spans cover, sorted and without overlaps."""
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def total_length(spans):
    """The length of all `spans`, which do not overlap."""
    return sum(end - begin for begin, end in spans)


def overlap_length(begin, end, spans):
    """The length of the part of the span from `begin` to `end` that lies within `spans`, which do not overlap."""
    return sum(max(0, min(end, other_end) - max(begin, other_begin)) for other_begin, other_end in spans)


def run_and_list_blocks_at_peak(run_step, max_entries=40):
    """Runs a step. Returns {"allocated": bytes, "blocks": [(MiB together, number, MiB of each, line of code)]} of memory at its peak. Blocks
    of the same size and line are one entry."""
    allocations = allocations_at_peak(private.allocator_events_during(run_step))
    count_of_block = Counter((round(event["size"] / 2**20, 2), code_line_of(event)) for event in allocations)
    blocks = sorted(((round(count * block_mib, 2), count, block_mib, code_line)
                     for (block_mib, code_line), count in count_of_block.items()), reverse=True)
    return {"allocated": sum(event["size"] for event in allocations), "blocks": blocks[:max_entries]}


def allocations_at_peak(allocator_events):
    """Those of the allocator's events that allocated the blocks alive at the peak."""
    event_of_address, byte_count, peak_bytes, events_at_peak = {}, 0, 0, []
    for event in allocator_events:
        if event["action"] == "alloc":
            event_of_address[event["addr"]] = event
            byte_count += event["size"]
        elif event["action"] == "free_completed" and event["addr"] in event_of_address:
            byte_count -= event_of_address.pop(event["addr"])["size"]
        if byte_count > peak_bytes:
            peak_bytes, events_at_peak = byte_count, list(event_of_address.values())
    return events_at_peak


def code_line_of(allocator_event):
    """The innermost line of code outside PyTorch from which an event came."""
    for frame in allocator_event.get("frames", ()):
        if not frame["filename"].startswith(PYTORCH_FOLDER):
            return linecache.getline(frame["filename"], frame["line"]).strip()[:110] or frame["name"]
    return ""
