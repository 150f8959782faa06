"""Training steps that are launched as two CUDA graphs, one for each pass: recorded once, with all copies to the host and back, and replayed.

A graph reads and writes where it did when it was recorded. What a step makes lies in a pool of memory that nobody else takes from, in runs
of such lengths that the recorded step finds room (arena.py). Inputs are copied to where they were; the loss is copied from where it is made."""

import gc
import warnings

import torch
from torch.utils.weak import WeakIdKeyDictionary

from . import private
from .arena import MIB, WORK, runs_for, take_workspaces
from .values import is_tangent, stored_bytes, tensors_of

OFF, RECORDS, REPLAYS = range(3)
MOST_COPIED = 256 * MIB     # bytes of inputs, and of results that are copied in each step
UNIT = 4 * MIB              # of the lengths of runs
SEPARATOR = MIB + 512       # bytes that keep two runs apart, of the same pool as they

_pools = WeakIdKeyDictionary()  # memory that the gradients of parameters lie in, which may outlive the model


class NotReplayed(RuntimeError):
    """One line that says why a step is not replayed."""


class Pass:
    """A recorded pass. replay(): runs it; addresses: of its inputs, None of those that have copies; copies: {number of an input: its copy}; made:
    results as they lie in the graph's memory or outside of it, and whether each was made by the graph."""

    def __init__(self, replay, addresses, copies, made):
        self.replay, self.addresses, self.copies, self.made = replay, addresses, copies, made

    def fits(self, given):
        return len(given) == len(self.addresses) and all(number in self.copies or address_of(x) == wanted
                                                         for number, (x, wanted) in enumerate(zip(given, self.addresses)))

    def run(self, given):
        for number, copy in self.copies.items():
            copy.copy_(given[number])
        given.clear()
        self.replay()


class Replays:
    """The graphs of one compiled model. state: whether steps are run by compiled code, recorded or replayed. results: of the forward pass, how
    many are the model's own; the rest is what the backward pass reads."""

    def __init__(self, model, budget):
        self.model, self.budget = model, budget
        self.state, self.refusal, self.results, self.graphs = OFF, "", 0, 0
        self.forward = self.backward = self.pool = self.arena = self.separators = None
        self.alive = []  # weakly, the memory of gradients and of one tensor that the backward pass reads

    def wrapped(self, run, is_backward):
        """`run`, a function of a list that it empties, as it is to be called."""
        def call(given):
            if self.state != OFF and self.graphs > 1:
                self.drop("inputs have several shapes")
            if self.state == OFF:
                return run(given)
            return (self.run_backward if is_backward else self.run_forward)(run, given)

        return call

    def expect(self, results):
        """Notes that a graph is compiled whose forward pass has so many results of the model's own."""
        self.results, self.graphs = results, self.graphs + 1

    def begin(self, arena):
        """Before each step of a settled plan. Whether it is replayed, or recorded for that."""
        if self.refusal:
            return False
        if self.state == OFF:
            self.arena, self.state = arena, RECORDS if all(parameter.grad is None for parameter in self.model.parameters()) else OFF
        elif self.backward is None:
            self.drop("its backward pass did not come")
        elif any(not each.expired() for each in self.alive):
            self.drop("gradients, or a loss, of the step before are kept: set gradients to None before the forward pass")
        elif torch.cuda.memory_reserved(arena.device) > self.budget:
            self.drop("its graphs take more than the budget")
        else:
            self.state = REPLAYS
        return self.state != OFF

    def drop(self, why):
        """Steps are run by compiled code from now on."""
        warnings.warn(f"fit: steps are no longer replayed: {why}", stacklevel=4)
        self.refusal, self.state = why, OFF
        self.release()

    def release(self):
        """Gives the graphs' memory back once nothing lies in it."""
        for parameter in self.model.parameters():
            if parameter in _pools and parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
            _pools.pop(parameter, None)
        if all(each.expired() for each in self.alive):
            self.forward = self.backward = self.pool = self.separators = None
            torch.cuda.empty_cache()

    def run_forward(self, run, given):
        if self.state == RECORDS:
            kept = list(given)
            try:
                fixed = {tensor.untyped_storage().data_ptr() for tensor in (*self.model.parameters(), *self.model.buffers())}
                inputs, copies = self.inputs_of(given, fixed)
                self.pool = self.laid_pool()
                self.forward, made = self.recorded(run, inputs, copies, fixed)
            except (NotReplayed, RuntimeError) as error:
                del given[:]
                self.drop(str(error).strip().splitlines()[0])
                return run(kept)
            del kept
        elif not self.forward.fits(given):
            self.drop("parameters or inputs have moved")
            return run(given)
        else:
            self.forward.run(given)
            made = [tensor for tensor, _ in self.forward.made]
        return self.shown_forward(made)

    def shown_forward(self, made):
        """What the forward pass returns: copies of the model's own results, and one tensor by which it is known that they are no longer needed."""
        shown = [x.clone() if number < self.results and is_made else x for number, (x, (_, is_made)) in enumerate(zip(made, self.forward.made))]
        first = next((number for number, (_, is_made) in enumerate(self.forward.made) if is_made and number >= self.results), None)
        self.alive = []
        if first is not None and self.state == REPLAYS:
            shown[first] = private.tensor_at(shown[first])
            self.alive = [private.weak_memory(shown[first])]
        return shown

    def run_backward(self, run, given):
        if self.state == RECORDS:
            saved = {tensor.untyped_storage().data_ptr() for tensor, is_made in self.forward.made if isinstance(tensor, torch.Tensor)}
            fixed = saved | {tensor.untyped_storage().data_ptr() for tensor in (*self.model.parameters(), *self.model.buffers())}
            inputs, copies = self.inputs_of(given, fixed)
            try:
                self.backward, made = self.recorded(run, inputs, copies, fixed - saved)
            except RuntimeError as error:
                self.drop(f"its backward pass cannot be recorded: {str(error).strip().splitlines()[0]}")
                raise  # what it reads is gone
            _pools.update(dict.fromkeys(self.model.parameters(), self.pool))
        elif not self.backward.fits(given):
            return run(given)
        else:
            self.backward.run(given)
            made = [private.tensor_at(x) if is_made else x for x, is_made in self.backward.made]
        self.alive += [private.weak_memory(x) for x, (_, is_made) in zip(made, self.backward.made) if is_made]
        return made

    def inputs_of(self, given, fixed):
        """(what a graph reads, {number: a copy of an input} for those whose memory is not among `fixed`). Empties `given`."""
        copies = {number: x.clone() for number, x in enumerate(given) if isinstance(x, torch.Tensor) and self.is_here(x)
                  and x.untyped_storage().data_ptr() not in fixed}
        if sum(map(bytes_of, copies.values())) > MOST_COPIED:
            raise NotReplayed("its inputs are too large to be copied")
        inputs = [copies.get(number, x) for number, x in enumerate(given)]
        given.clear()
        return inputs, copies

    def is_here(self, x):
        return x.is_cuda

    def recorded(self, run, inputs, copies, fixed):
        """(the pass, its results of this time). inputs: emptied; fixed: addresses of memory that is the model's."""
        addresses = [None if number in copies else address_of(x) for number, x in enumerate(inputs)]
        fixed = fixed | {copy.untyped_storage().data_ptr() for copy in copies.values()}
        replay, results = self.record(run, inputs)
        replay()
        made = [(x, isinstance(x, torch.Tensor) and self.is_here(x) and x.untyped_storage().data_ptr() not in fixed) for x in results]
        if sum(bytes_of(x) for number, (x, is_made) in enumerate(made) if is_made and number < self.results) > MOST_COPIED:
            raise NotReplayed("its results are too large to be copied")
        return Pass(replay, addresses, copies, [(private.tensor_at(x) if is_made else x, is_made) for x, is_made in made]), list(results)

    def record(self, run, inputs):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool.id, stream=self.stream, capture_error_mode="thread_local"):
            results = run(inputs)
        return graph.replay, results

    def laid_pool(self):
        """A pool of memory, mapped in runs in which the step that was recorded by its allocations finds room."""
        if not self.arena.requests or not private.maps_pages():
            raise NotReplayed("its allocations were not noted")
        device = self.arena.device
        gc.collect()
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        self.stream = torch.cuda.Stream(device)
        private.free_workspaces()
        with torch.cuda.stream(self.stream):
            take_workspaces(device)
            multiply(device)
        runs, _ = runs_for(self.arena.requests, self.arena.room() // UNIT, WORK, page=UNIT, pieces=pieces)
        if runs is None:
            raise NotReplayed("memory cannot be laid out for its graphs")
        pool, held = torch.cuda.MemPool(), []
        with torch.cuda.stream(self.stream), torch.cuda.use_mem_pool(pool, device):
            for size, _ in pieces(runs):
                held += [torch.empty(size, dtype=torch.uint8, device=device), torch.empty(SEPARATOR, dtype=torch.uint8, device=device)]
        self.separators = held[1::2]
        return pool


def bytes_copied(joint, static_inputs):
    """Of a joint graph's inputs that lie elsewhere in each step, which have copies. static_inputs: numbers of the others."""
    given = [node for node in joint.graph.find_nodes(op="placeholder") if not is_tangent(node)]
    return sum(stored_bytes(value) for number, node in enumerate(given) if number not in set(static_inputs or ()) for value in tensors_of(node))


def pieces(runs):
    """Of runs of units that lie one behind the other, each with a separator at its end: they cannot grow."""
    return [(run * UNIT - SEPARATOR, 0) for run in runs]


def multiply(device):
    """Products of each kind in both passes: what libraries keep for a stream they take before it is recorded."""
    for kind in (torch.float32, torch.bfloat16):
        a = torch.ones(64, 64, device=device, dtype=kind, requires_grad=True)
        with torch.enable_grad():
            made = torch.nn.functional.linear(a, a, a[0]).sum() + torch.bmm(a[None], a[None]).sum()
            torch.autograd.backward(made, inputs=[a])
    torch.cuda.synchronize(device)


def address_of(x):
    return x.data_ptr() if isinstance(x, torch.Tensor) else x


def bytes_of(x):
    return x.numel() * x.element_size()
