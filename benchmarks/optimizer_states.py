#!/usr/bin/env python3
"""Compares places for AdamW's states by the time of one optimizer step whose states begin and end on the host.

    python3 benchmarks/optimizer_states.py --out results/torch/optimizer.jsonl

Weights and gradients (fp32) stay on the device. Both moments (fp32) make room for activations: except for `device` each step begins and ends
with the moments on the host. One kernel does the step of all parameters, or of a chunk. All places give the same bits; the result of `device`
is compared with that of torch.optim.AdamW. Fast places come first. Each result is written as soon as it is measured. Needs a GPU, PyTorch
and Triton.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

CHUNK_ELEMENTS, BUFFER_COUNT = 1 << 24, 3  # elements of a chunk; number of chunks on the device at the same time
LR, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01
READ_MOSTLY, PREFERRED, ACCESSED = 1, 3, 5  # values of CUmem_advise
HOST_DEVICE = -1


@triton.jit
def adamw(w, g, m, v, element_count, correction1, correction2, lr: tl.constexpr, beta1: tl.constexpr, beta2: tl.constexpr, epsilon: tl.constexpr,
          decay: tl.constexpr, block_size: tl.constexpr):
    """Updates w, m and v. The moments are divided by `correction1` and `correction2`, which are 1 - beta ** step."""
    element_indices = tl.program_id(0).to(tl.int64) * block_size + tl.arange(0, block_size)
    is_inside = element_indices < element_count
    gradient = tl.load(g + element_indices, is_inside)
    weight = tl.load(w + element_indices, is_inside) * (1 - lr * decay)
    mean = beta1 * tl.load(m + element_indices, is_inside) + (1 - beta1) * gradient
    mean_square = beta2 * tl.load(v + element_indices, is_inside) + (1 - beta2) * gradient * gradient
    tl.store(m + element_indices, mean, is_inside)
    tl.store(v + element_indices, mean_square, is_inside)
    tl.store(w + element_indices, weight - lr * (mean / correction1) / (tl.sqrt(mean_square / correction2) + epsilon), is_inside)


def run_adamw_step(w, g, m, v, step_number):
    """Runs a step of AdamW, numbered from 1, which changes weights and moments, w, m and v, in place."""
    block_size = 1024
    adamw[(triton.cdiv(w.numel(), block_size),)](w, g, m, v, w.numel(), 1 - BETA1**step_number, 1 - BETA2**step_number,
                                                 LR, BETA1, BETA2, EPSILON, DECAY, block_size)


# --- managed memory ---

cuda_driver = ctypes.CDLL("libcuda.so.1")


def call_cuda(function_name, *arguments):
    """Calls a function of the CUDA driver; throws RuntimeError if it fails."""
    error_code = getattr(cuda_driver, function_name)(*arguments)
    if error_code:
        raise RuntimeError(f"{function_name}: CUDA error {error_code}")


class ManagedTensor:
    """A tensor of zeros in managed memory, whose pages are on the host."""

    def __init__(self, element_count):
        self.pointer, self.bytes = ctypes.c_uint64(), 4 * element_count
        call_cuda("cuMemAllocManaged", ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes), 1)
        self.__cuda_array_interface__ = {"shape": (element_count,), "typestr": "<f4", "data": (self.pointer.value, False), "version": 3}
        self.tensor = torch.as_tensor(self, device="cuda")
        self.tensor.zero_()
        self.prefetch(HOST_DEVICE)
        torch.cuda.synchronize()

    def prefetch(self, device, first_element=0, element_count=None):
        byte_count = self.bytes - 4 * first_element if element_count is None else 4 * element_count
        call_cuda("cuMemPrefetchAsync", ctypes.c_uint64(self.pointer.value + 4 * first_element), ctypes.c_size_t(byte_count), device,
                  ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    def advise(self, advice_code, device):
        call_cuda("cuMemAdvise", self.pointer, ctypes.c_size_t(self.bytes), advice_code, device)

    def free(self):
        del self.tensor
        torch.cuda.synchronize()
        call_cuda("cuMemFree_v2", self.pointer)


# --- places of the states: each is a function of (weights, gradients) that returns (run(step_number), [managed tensors to free]) ---

def place_on_device(w, g):
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    return lambda step_number: run_adamw_step(w, g, m, v, step_number), []


def make_managed_placement(advice_and_devices=(), prefetches_to_device=False, prefetches_to_host=True):
    """Returns a function that places the states in managed memory. `advice_and_devices`: [(value of CUmem_advise, device)]. The states are
    prefetched to the device before the kernel instead of moved by faults, and to the host after it, if so asked."""
    def place_states(w, g):
        states = [ManagedTensor(w.numel()), ManagedTensor(w.numel())]
        for state in states:
            for advice_code, device in advice_and_devices:
                state.advise(advice_code, device)

        def run(step_number):
            for state in states if prefetches_to_device else ():
                state.prefetch(0)
            run_adamw_step(w, g, states[0].tensor, states[1].tensor, step_number)
            for state in states if prefetches_to_host else ():
                state.prefetch(HOST_DEVICE)

        return run, states
    return place_states


def make_chunked_step(move_to_device, move_to_host, states, weights, gradients):
    """Returns a function that runs the step of a given number in chunks: while the kernel runs on one chunk, the next is moved to the device and
    the previous one to the host. move_to_device(state, buffer_index, first_element, element_count) returns the chunk on the device."""
    streams = [torch.cuda.Stream() for _ in range(3)]  # for copies to the GPU, the kernel, and copies to the host

    def run(step_number):
        caller_stream = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(caller_stream)
        copied_events = []  # events after the copy of each chunk to the host
        for chunk_index, first_element in enumerate(range(0, weights.numel(), CHUNK_ELEMENTS)):
            element_count = min(CHUNK_ELEMENTS, weights.numel() - first_element)
            with torch.cuda.stream(streams[0]):
                if chunk_index >= BUFFER_COUNT:
                    streams[0].wait_event(copied_events[chunk_index - BUFFER_COUNT])
                m, v = (move_to_device(state, chunk_index % BUFFER_COUNT, first_element, element_count) for state in states)
            streams[1].wait_stream(streams[0])
            with torch.cuda.stream(streams[1]):
                run_adamw_step(weights[first_element:first_element + element_count], gradients[first_element:first_element + element_count],
                               m, v, step_number)
            streams[2].wait_stream(streams[1])
            with torch.cuda.stream(streams[2]):
                for state in states:
                    move_to_host(state, chunk_index % BUFFER_COUNT, first_element, element_count)
                copied_events.append(streams[2].record_event())
        for stream in streams:
            caller_stream.wait_stream(stream)
    return run


def place_managed_moved_in_chunks(w, g):
    states = [ManagedTensor(w.numel()), ManagedTensor(w.numel())]

    def move_to_device(state, _buffer_index, first_element, element_count):
        state.prefetch(0, first_element, element_count)
        return state.tensor[first_element:first_element + element_count]

    def move_to_host(state, _buffer_index, first_element, element_count):
        state.prefetch(HOST_DEVICE, first_element, element_count)

    return make_chunked_step(move_to_device, move_to_host, states, w, g), states


def make_pinned_states(w):
    """Two tensors of zeros in pinned memory, as large as the weights."""
    return [torch.zeros(w.numel(), pin_memory=True) for _ in range(2)]


def place_pinned_copied_in_chunks(w, g):
    host_states_and_buffers = [(host_state, [torch.empty(CHUNK_ELEMENTS, device="cuda") for _ in range(BUFFER_COUNT)])
                               for host_state in make_pinned_states(w)]

    def move_to_device(host_and_buffers, buffer_index, first_element, element_count):
        host_state, buffers = host_and_buffers
        buffers[buffer_index][:element_count].copy_(host_state[first_element:first_element + element_count], non_blocking=True)
        return buffers[buffer_index][:element_count]

    def move_to_host(host_and_buffers, buffer_index, first_element, element_count):
        host_state, buffers = host_and_buffers
        host_state[first_element:first_element + element_count].copy_(buffers[buffer_index][:element_count], non_blocking=True)

    return make_chunked_step(move_to_device, move_to_host, host_states_and_buffers, w, g), []


def place_pinned_read_over_link(w, g):
    m, v = make_pinned_states(w)
    return lambda step_number: run_adamw_step(w, g, m, v, step_number), []


PLACE_FUNCTIONS = {
    "device": place_on_device,
    "pinned, copied in chunks": place_pinned_copied_in_chunks,
    "pinned, stepped over the link": place_pinned_read_over_link,
    "managed, preferred host, accessed by device": make_managed_placement([(PREFERRED, HOST_DEVICE), (ACCESSED, 0)], prefetches_to_host=False),
    "managed, prefetched in chunks": place_managed_moved_in_chunks,
    "managed, prefetched": make_managed_placement(prefetches_to_device=True),
    "managed": make_managed_placement(),
    "managed, preferred device": make_managed_placement([(PREFERRED, 0)]),
    "managed, preferred host": make_managed_placement([(PREFERRED, HOST_DEVICE)]),
    "managed, accessed by device": make_managed_placement([(ACCESSED, 0)]),
    "managed, read mostly": make_managed_placement([(READ_MOSTLY, 0)]),
}
WARM_UP_STEPS, STEPS_BEFORE_COMPARISON = 2, 3  # untimed steps; steps after which the weights are compared with torch.optim's


def measure_steps_ns(run_step, max_steps, max_seconds, compare_weights):
    """The nanoseconds of each step after WARM_UP_STEPS. There are `max_steps` of them, or fewer if they take longer than `max_seconds`.
    Calls run_step(number of the step from 1), and compare_weights() after step STEPS_BEFORE_COMPARISON."""
    samples_ns, begin_s = [], time.monotonic()
    for step_number in range(1, WARM_UP_STEPS + max_steps + 1):
        begin_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin_event.record()
        run_step(step_number)
        end_event.record()
        torch.cuda.synchronize()
        samples_ns.append(round(begin_event.elapsed_time(end_event) * 1e6))
        if step_number == STEPS_BEFORE_COMPARISON:
            compare_weights()
        if step_number >= STEPS_BEFORE_COMPARISON and time.monotonic() - begin_s > max_seconds:
            break
    return samples_ns[WARM_UP_STEPS:]


def initial_weights_and_gradients(element_count):
    """(weights, gradients), random but the same in each call."""
    generator = torch.Generator("cuda").manual_seed(1)
    return torch.randn(element_count, device="cuda", generator=generator), torch.randn(element_count, device="cuda", generator=generator)


def largest_difference_from_torch(weights):
    """The largest difference from the weights of torch.optim.AdamW after STEPS_BEFORE_COMPARISON steps."""
    expected_weights, g = initial_weights_and_gradients(weights.numel())
    expected_weights.grad = g
    optimizer = torch.optim.AdamW([expected_weights.requires_grad_()], LR, (BETA1, BETA2), EPSILON, DECAY, fused=True)
    for _ in range(STEPS_BEFORE_COMPARISON):
        optimizer.step()
    return float((expected_weights.detach() - weights).abs().max())


def driver_version():
    process = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return (process.stdout.split() or ["unknown"])[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE.jsonl")
    parser.add_argument("--parameters", type=int, default=1 << 27, help="elements (2^27: states of 1 GiB)")
    parser.add_argument("--steps", type=int, default=6, help="measured, after two that warm up")
    parser.add_argument("--only", metavar="PLACE", nargs="+", default=list(PLACE_FUNCTIONS), choices=list(PLACE_FUNCTIONS),
                        help="these alone, `device` first")
    parser.add_argument("--within", type=float, default=3, metavar="SECONDS", help="slower places are measured by fewer steps")
    options = parser.parse_args()
    entries, first_weights_and_difference = [], []
    common_facts = {"schema": 1, "kind": "optimizer_states", "gpu": torch.cuda.get_device_name(), "driver": driver_version(),
                    "torch": torch.__version__, "parameters": options.parameters, "state_bytes": 8 * options.parameters}
    for place in options.only:
        w, g = initial_weights_and_gradients(options.parameters)
        run_step, managed_tensors = PLACE_FUNCTIONS[place](w, g)
        comparison = {}

        def compare_weights(weights=w, entry=comparison):
            if not first_weights_and_difference:
                first_weights_and_difference.extend([weights.clone(), largest_difference_from_torch(weights)])
            entry["same_bits"] = bool(torch.equal(weights, first_weights_and_difference[0]))

        samples_ns = measure_steps_ns(run_step, options.steps, options.within, compare_weights)
        entries.append(common_facts | {"place": place, "step_ns": round(statistics.median(samples_ns)), "samples_ns": samples_ns} | comparison
                       | {"largest_difference_from_torch": first_weights_and_difference[1]})
        bits_text = "same bits" if comparison["same_bits"] else "OTHER BITS"
        print(f"{place:45} {entries[-1]['step_ns'] / 1e6:9.2f} ms  {bits_text}, off torch {first_weights_and_difference[1]:.1e}", flush=True)
        Path(options.out).write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        del run_step, w, g
        for managed_tensor in managed_tensors:
            managed_tensor.free()
        del managed_tensors, compare_weights
        torch.cuda.empty_cache()
    return 0 if all(entry["same_bits"] for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
