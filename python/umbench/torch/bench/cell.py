"""One model under one way of saving memory, measured in a process of its own.

    python -m umbench.torch.bench.cell MODEL WAY [VALUE] [--tier TIER]

WAY: plain (torch.compile as it is), share (VALUE is PyTorch's activation_memory_budget), blocks (one of VALUE blocks is checkpointed),
selective (the same, but products, convolutions and attention are saved), save_on_cpu (of pinned memory), fit (VALUE is a budget in bytes).
Compiles, says so by a JSON line, and answers each line that it reads, a key of ANSWERS, by another."""

import argparse
import functools
import gc
import json
import sys
import time

import torch
import torch.utils.checkpoint

from .. import private
from . import gpu_events
from .models import MODELS

STEPS_UNDER_CAP = 100
UNTIMED_STEPS, TIMED_STEPS = 10, 8  # after a pause the CPU launches the first four to six steps more slowly
WAYS = ("plain", "share", "blocks", "selective", "save_on_cpu", "fit")
aten = torch.ops.aten
SAVED_OPERATORS = [aten.mm.default, aten.addmm.default, aten.bmm.default, aten.convolution.default, aten._scaled_dot_product_flash_attention.default,
         aten._scaled_dot_product_cudnn_attention.default, aten._scaled_dot_product_efficient_attention.default]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("value", nargs="?", type=float)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--tier", choices=("pinned", "managed", "none"), default="pinned")
    parser.add_argument("--parts", default="1")
    parser.add_argument("--cuda-graphs", action="store_true")
    options = parser.parse_args()
    answer_stream = sys.stdout
    sys.stdout = sys.stderr  # PyTorch also prints to standard output
    training = Training(options)
    write_answer(answer_stream, training.run_until_plan_is_final)
    for line in sys.stdin:
        write_answer(answer_stream, lambda: ANSWERS[line.strip()](training))


def write_answer(stream, compute_answer):
    """Writes the dictionary that compute_answer() returns as a JSON line, or its error."""
    try:
        answer = compute_answer()
    except Exception as error:  # the error becomes a row of the table, and the other cells still run
        answer = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"}
    print(json.dumps(answer), file=stream, flush=True)


class Training:
    """Trains one model under one way of saving memory in this process. `losses`: of all steps; `peak`: bytes of the last measurement."""

    def __init__(self, options):
        self.options, self.losses, self.plan, self.peak = options, [], None, 0

    def run_until_plan_is_final(self):
        """Compiles, and runs steps until the plan is final. Returns facts of the device, the first step and the plan."""
        torch.manual_seed(0)
        options = self.options
        self.model, self.inputs = MODELS[options.model](**({"batch": options.batch} if options.batch else {}))
        self.model.train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.run = compile_model(self.model, self.optimizer, options)
        self.plan = plan = getattr(self.model, "plan", None)
        begin_s = time.monotonic()
        self.run_step()
        torch.cuda.synchronize()
        facts = {"device": torch.cuda.get_device_properties(0).name, "torch": torch.__version__, "cuda": torch.version.cuda, "batch": options.batch,
                 "parts": 1, "optimizer": "SGD", "first_step_s": time.monotonic() - begin_s, "gradient_norm": gradient_norm(self.model)}
        for _ in range(20):
            if plan is None or plan.settled:
                break
            self.run_step()
        if plan is not None:
            facts |= {"parts": plan.micro_batches, "predicted": plan.predicted, "predicted_unplanned": plan.unplanned,
                      "planned_base": plan.base_bytes, "plan_s": plan.seconds,
                      "plans": plan.plans, "tried": plan.tried, "unforeseen": plan.unforeseen, "chunks": plan.chunks, "differences": plan.differences,
                      "offloaded": plan.offloaded_bytes, "tensors_offloaded": len(plan.offloaded), "peak_at": plan.peak_at, "untimed": plan.untimed,
                      "kernels_again": sum(len(recomputed_names) for *_, recomputed_names in plan.modules.values())}
        for _ in range(3):
            self.run_step()
        if plan is not None:
            facts |= {"replayed": plan.is_replayed, "launched_because": plan.launched_because, "unplaced_because": plan.unplaced_because}
        gc.collect()
        gc.freeze()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.run_step()  # maps again the memory that empty_cache() unmapped
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return facts

    def run_step(self):
        """Runs a training step. Returns (event before the forward pass, event after the backward pass, seconds that launching both took)."""
        self.optimizer.zero_grad(set_to_none=True)
        begin_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin_s = time.perf_counter()
        begin_event.record()
        loss = self.run(*self.inputs)
        loss.backward()
        end_event.record()
        issue_s = time.perf_counter() - begin_s
        self.losses.append(loss.detach())
        self.optimizer.step()
        return begin_event, end_event, issue_s

    def measure_times(self):
        """{"ms": of the forward and backward pass of each step, "peak", "reserved"}. The peak is that of the second step if pieces of memory are
        held or steps are replayed; then "holds" and "laid" count these pieces and the mappings of memory."""
        timed_steps = [self.run_step() for _ in range(UNTIMED_STEPS + TIMED_STEPS)][UNTIMED_STEPS:]
        torch.cuda.synchronize()
        self.peak = torch.cuda.max_memory_allocated()
        arena = getattr(getattr(self.model, "_compiled_call_impl", None), "arena", None)
        placing_counts = {"holds": len(arena.holds or ()), "laid": arena.mappings} if arena is not None else {}
        if placing_counts.get("holds") or self.plan is not None and self.plan.is_replayed:
            self.peak = self.plan.measured["peak"]
        return placing_counts | {"ms": [begin_event.elapsed_time(end_event) for begin_event, end_event, _ in timed_steps],
                                 "peak": self.peak, "reserved": torch.cuda.max_memory_reserved()}

    def profile_step(self):
        """The times of gpu_events.profile_steps() and issue_ms, the CPU time to launch a step on an idle GPU. With a plan whose steps
        are launched also `alive`, the blocks in memory at the peak."""
        issue_s = []
        for _ in range(5):
            torch.cuda.synchronize()
            issue_s.append(self.run_step()[2])
        profile = gpu_events.profile_steps(self.run_step) | {"issue_ms": 1e3 * sorted(issue_s)[2]}
        if self.plan is None or self.plan.is_replayed:
            return profile
        return profile | {"alive": gpu_events.run_and_list_blocks_at_peak(self.run_step)}

    def run_under_caps(self):
        """Runs steps under a hard cap at the budget, and under a cap 3 % below their measured peak, where they should fail. The plan does not
        change meanwhile."""
        device_bytes, results = torch.cuda.get_device_properties(0).total_memory, {}
        if self.plan is not None:
            from ..fit import FittedCall

            self.plan.plans = FittedCall.MAX_PLANS
        if self.options.way == "fit":
            set_memory_cap(self.options.value, device_bytes)
            record_first_out_of_memory(results)
            begin_s = time.monotonic()
            results["under_cap"] = run_steps(self.run_step, STEPS_UNDER_CAP)
            step_count = STEPS_UNDER_CAP if results["under_cap"] is True else max(1, results["under_cap"])
            results |= {"ms_under_cap": 1e3 * (time.monotonic() - begin_s) / step_count, "reserved_under_cap": torch.cuda.max_memory_reserved()}
            if self.plan.is_replayed:  # a replay allocates nothing that a lower cap could refuse
                return results | {"losses": [self.losses[0].item(), self.losses[-1].item()]}
        set_memory_cap(0.97 * self.peak, device_bytes)
        results["fails_below"] = run_steps(self.run_step, 3) is not True
        return results | {"losses": [self.losses[0].item(), self.losses[-1].item()]}


ANSWERS = {"time": Training.measure_times, "profile": Training.profile_step, "cap": Training.run_under_caps}


def gradient_norm(model):
    return torch.stack([p.grad.float().norm() for p in model.parameters() if p.grad is not None]).norm().item()


def set_memory_cap(cap_bytes, device_bytes):
    """Sets a hard cap of memory for this process and resets the peaks."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(cap_bytes / device_bytes)


def compile_model(model, optimizer, options):
    """The function of a step's forward pass, with memory saved in the way of the options."""
    if options.way == "fit":
        import umbench.torch

        return umbench.torch.fit(model, budget=int(options.value), optimizer=optimizer, tier=None if options.tier == "none" else options.tier,
                                 micro_batches=options.parts if options.parts == "auto" else int(options.parts), cuda_graphs=options.cuda_graphs)
    if options.way == "share":
        torch._functorch.config.activation_memory_budget = options.value
    if options.way in ("blocks", "selective"):
        checkpoint_blocks(model.model, int(options.value), options.way == "selective")
    compiled_model = torch.compile(model)
    return with_save_on_cpu(compiled_model) if options.way == "save_on_cpu" else compiled_model


def checkpoint_blocks(model, every_nth, is_selective):
    """Makes one of `every_nth` blocks of a model checkpointed, in place."""
    block_lists = [getattr(model, name) for name in ("blocks", "body", "down", "merge") if hasattr(model, name)]
    if not block_lists:
        raise ValueError("the model has no blocks")
    for blocks in block_lists:
        for i in range(0, len(blocks), every_nth):
            blocks[i] = Checkpointed(blocks[i], is_selective)


def with_save_on_cpu(forward):
    """`forward` with the tensors that it saves for the backward pass in pinned memory of the host."""
    def forward_with_saving(*inputs):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return forward(*inputs)

    return forward_with_saving


class Checkpointed(torch.nn.Module):
    """A block whose backward pass computes it again; if `is_selective`, all but SAVED_OPERATORS."""

    def __init__(self, block, is_selective):
        super().__init__()
        context_fn = functools.partial(torch.utils.checkpoint.create_selective_checkpoint_contexts, SAVED_OPERATORS)
        self.block, self.options = block, {"context_fn": context_fn} if is_selective else {}

    def forward(self, *inputs):
        return torch.utils.checkpoint.checkpoint(self.block, *inputs, use_reentrant=False, **self.options)


def record_first_out_of_memory(results):
    """Records the allocator's state in `results` when memory runs out for the first time from now on: the requested bytes, and the sizes of its
    free pieces of at least a MiB."""
    def observe(device, requested_bytes, device_bytes, free_bytes):
        if "out_of_memory" in results:
            return
        blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
        free_pieces = sorted((block["size"] for block in blocks if block["state"] == "inactive"), reverse=True)
        results["out_of_memory"] = {"asked": requested_bytes, "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                                    "free": [size >> 20 for size in free_pieces if size >= 1 << 20], "blocks": len(blocks)}

    private.observe_out_of_memory(observe)


def run_steps(run_step, step_count):
    """Runs `step_count` steps. Returns True, or the number of steps after which memory ran out."""
    for completed_steps in range(step_count):
        try:
            run_step()
            torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            return completed_steps
    return True


if __name__ == "__main__":
    sys.exit(main())
