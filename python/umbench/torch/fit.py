"""fit(): a model that trains within a budget of device memory."""

import gc
import math
import re
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch

from . import chunks, copies, micro, placing, private, refusals, rewrites, skips
from .arena import MAX_REMAPS, Arena
from .costs import RATES_BY_GPU, costs_for, tabulated_rates_of
from .cuda_graphs import StepGraphs, allocate_cublas_workspaces
from .interpreter import garbage_collection_off, on_one_stack
from .operators import operator_name
from .plan import Plan, size_text
from .planner import NoPlan, NoRoom, ask_planner
from .step import device_type_of, step_and_pytorchs_choice

BYTES_OF_UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "KB": 1e3, "MB": 1e6, "GB": 1e9}
# Bytes of an optimizer's states for each byte of a parameter.
STATES_PER_BYTE = {"AdamW": 2, "Adam": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "SGD": 0, "RMSprop": 1, "Adagrad": 1, "Lion": 1}
OPERATORS_WITH_WORKSPACE = {"mm", "addmm", "bmm", "baddbmm", "add_product"}  # operators for which cuBLAS keeps workspaces


def fit(model, budget, optimizer=None, tier="pinned", bits="rounding", micro_batches=1, statistics_of_parts=False, backend="inductor", effort=1.0, cuda_graphs=False):
    """Compiles `model` in place and returns it. The first batch makes the plan, which is then in `model.plan`.

    budget: bytes of device memory for all of training ("24GiB" or a number): parameters, gradients, the optimizer's states, activations.
    optimizer: the optimizer of the parameters, its class, or the name of its class. Its states count; None counts none.
    tier: the memory that takes offloaded tensors: "pinned" memory of the host, or "managed" memory whose home is the host. None offloads
    nothing.
    bits: "rounding" allows sums in another order (losses in shares, batches in parts); "same" does not.
    micro_batches: the number of equal parts of each batch, which are computed one after the other. "auto" takes the smallest number that
    has a plan, or a larger one that is predicted to save a tenth of the time. The model's result has to be its loss, a mean over the batch.
    statistics_of_parts: whether each part may be normalised by its own statistics.
    backend: "inductor", which is imported here and starts its compiling processes, or "aot_eager", which compiles nothing.
    cuda_graphs: whether steps are replayed as CUDA graphs, where launching takes longer than the kernels. Steps have to be alike, with gradients
    set to None before each. The memory of a step is then not free between steps.
    effort: of the search; 1 takes some seconds. Equal graphs and costs have equal plans on any machine.
    Raises NoPlan with a message of one line, here or at the first batch."""
    refusals.check_model(model)
    refusals.check_options(tier, bits, micro_batches, effort, backend, cuda_graphs)
    states_per_byte(optimizer)
    if micro_batches != 1 and not statistics_of_parts:
        micro.refuse_batch_norms(model)
    plan = Plan(parse_budget(budget))
    if torch.cuda.is_available():
        private.configure_allocator()
    if backend == "inductor":
        private.import_compiler()
    private.install_call(model, FittedCall(model, plan, PlanningCompiler(model, plan, optimizer, tier, bits, backend, effort, cuda_graphs), micro_batches))
    model.plan = plan
    return model


class FittedCall:
    """Runs calls of the fitted model. Compiles it, measures the peak of the second step, and makes another plan if that peak exceeds the budget,
    if the forward pass runs out of memory, or if the step does not fit into mapped memory of the budget's size."""

    MAX_PLANS = 4     # maximum number of plans of a model
    MAX_REPEATS = 3   # measurements of the second step that are repeated since its backward pass did not run
    MAX_MAPPINGS = 3  # how often memory may be mapped for one plan before another plan is made

    def __init__(self, model, plan, planning, micro_batches):
        self.model, self.plan, self.planning, self.graphs = model, plan, planning, planning.graphs
        self.is_auto = micro_batches == "auto"
        self.chosen = not self.is_auto
        self.counts = [micro_batches] if self.chosen else list(micro.PART_COUNTS)  # numbers of parts of a batch; the first is in use
        self.steps, self.arena, self.ran_backward, self.repeats = 0, None, False, 0
        self.start_over()

    def start_over(self):
        """Discards plan, arena and measurements. The next call compiles and plans again."""
        self.repeat_measurement()
        placing.set_follower(None)
        self.steps, self.plan.micro_batches, self.arena = 0, self.counts[0], None
        self.plan.settled, self.plan.within = False, None
        self.planning.free_host_memory()
        if self.graphs:
            self.graphs.forget_passes()
        self.run = garbage_collection_off()(torch.compile(private.original_call_of(self.model), backend=weakly_bound(self.planning.compile),
                                                          fullgraph=True, dynamic=False))

    def choose_part_count(self, inputs, keyword_inputs):
        """Plans for several numbers of parts without compiling, and chooses one."""
        def predict_ms(part_count):
            """(predicted ms of a step in `part_count` parts by its plan, the same by PyTorch's own choice); raises NoPlan if there is no plan."""
            self.counts = [part_count]
            self.start_over()
            try:
                self.run_model(inputs, keyword_inputs)
            except micro.PlanMade:
                return self.planning.predicted_and_unplanned_ms(part_count)

        if self.planning.is_on_gpu():
            allocate_cublas_workspaces(next(self.model.parameters()).device)
        self.planning.only_plans, self.counts = True, list(micro.PART_COUNTS)
        try:
            part_counts = micro.part_counts_to_try(predict_ms)
        finally:
            self.planning.only_plans, self.counts = False, list(micro.PART_COUNTS)
        self.chosen, self.counts = True, part_counts
        self.start_over()

    def __call__(self, *inputs, **keyword_inputs):
        if not self.chosen and torch.is_grad_enabled():
            self.choose_part_count(inputs, keyword_inputs)
        if not self.plan.settled and torch.is_grad_enabled() and self.planning.is_on_gpu():
            self.begin_step()
        elif self.graphs and not torch.is_grad_enabled():
            self.graphs.drop_recordings()  # an evaluation needs the memory
        elif self.graphs and self.plan.within and self.arena is not None and self.graphs.begin_step(self.arena, self.model):
            return self.run_model(inputs, keyword_inputs)
        elif self.arena is not None and torch.is_grad_enabled():
            self.arena.remap_if_needed()
            if self.arena.has_run_out_of_remaps():
                self.plan.warn_of_lost_memory()
                placing.set_follower(None)
                self.arena = None
        if self.arena is not None and torch.is_grad_enabled() and not self.arena.recording:
            self.arena.begin_step()
        try:
            result = self.run_model(inputs, keyword_inputs)
            if self.steps == 2 and torch.is_grad_enabled():
                self.ran_backward = not private.call_after_backward(result, self.note_backward_ended)
            return result
        except NoRoom:
            if len(self.counts) == 1:
                raise
            del self.counts[0]
        except torch.OutOfMemoryError:
            if self.plan.plans == 0 or self.plan.plans >= self.MAX_PLANS:
                raise
            self.plan.leave_more_slack()
        self.start_over()
        return self(*inputs, **keyword_inputs)

    def run_model(self, inputs, keyword_inputs):
        try:
            if self.plan.plans == 0:
                refusals.check_model(self.model)  # checks again, since the model may have been sharded
            refusals.check_not_distributed()
            refusals.check_inputs(inputs, keyword_inputs)
            private.forget_dynamic_sizes((inputs, keyword_inputs))
            with private.graph_breaks_raise(NoPlan):
                part_count = micro.largest_part_count(self.counts[0], inputs, keyword_inputs) if self.is_auto and self.chosen else self.counts[0]
                if torch.is_grad_enabled():
                    self.plan.micro_batches = part_count
                if part_count == 1 or not torch.is_grad_enabled():
                    return self.run(*inputs, **keyword_inputs)
                return micro.run_in_parts(self.run, self.model, part_count, inputs, keyword_inputs)
        except BaseException:
            self.repeat_measurement()
            raise

    def note_backward_ended(self):
        self.ran_backward = True

    def repeat_measurement(self):
        """After an error, lets the next step be measured as the second one."""
        if self.arena is not None and self.steps == 2:
            self.arena.cancel_recording()
            self.steps = 1

    def begin_step(self):
        """Begins a training step. The first compiles, the second is measured, and the later ones map memory until a step has fitted into
        it."""
        device = next(self.model.parameters()).device
        if self.steps == 2 and not self.ran_backward and self.repeats < self.MAX_REPEATS:
            self.repeats += 1
            self.repeat_measurement()  # the backward pass of the last step failed or never ran
        if self.steps == 0:
            allocate_cublas_workspaces(device)
        elif self.steps == 1:
            gc.collect()  # frees memory in cycles that compiling left; the step's peak would include it
            torch.cuda.reset_peak_memory_stats(device)
            torch.cuda.synchronize(device)
            self.arena = Arena(device, self.plan.budget)
            self.arena.begin_recording()
            self.begun = time.monotonic()
        elif self.steps == 2:
            torch.cuda.synchronize(device)
            step_ms = 1e3 * (time.monotonic() - self.begun)
            reserved_bytes = torch.cuda.max_memory_reserved(device)
            self.plan.add_measurement(torch.cuda.max_memory_allocated(device), reserved_bytes, step_ms)
            was_recorded = self.arena.finish_recording()
            if reserved_bytes <= self.plan.budget:
                self.plan.make_final(reserved_bytes)
            elif self.plan.measured["peak"] <= self.plan.budget and was_recorded and private.allocator_maps_pages():
                self.map_memory_or_replan()
            elif self.plan.measured_peak_exceeds_usable() and self.plan.plans < self.MAX_PLANS:
                self.start_over()
            else:
                self.plan.make_final(reserved_bytes)
        elif self.arena.note_whether_step_fitted():
            self.plan.make_final(self.arena.total_reserved_bytes())
        else:
            self.map_memory_or_replan()
        self.steps += 1
        if self.plan.settled and self.planning.backend == "inductor":
            private.skip_launch_checks()

    def map_memory_or_replan(self):
        """Maps memory for the step. While other processes hold that memory, later steps try again. If the step does not fit into it, makes another plan,
        with more slack unless that plan already includes the missing bytes."""
        if self.arena.mappings < self.MAX_MAPPINGS and self.arena.map_memory() or 0 < self.arena.refusals < MAX_REMAPS:
            return
        if self.plan.plans < self.MAX_PLANS and not self.arena.refusals:
            foreseen_bytes = self.plan.measured["peak"] - self.plan.predicted["peak"]  # the next plan includes these bytes
            if not self.plan.measured_peak_exceeds_usable() or self.arena.lacking > foreseen_bytes:
                self.plan.leave_more_slack(self.arena.lacking - foreseen_bytes)
            self.start_over()
        else:
            self.arena.stop_placing()
            self.plan.make_final(self.plan.measured["reserved"], "other processes hold the memory" if self.arena.refusals else "its tensors find no places")


def parse_budget(budget):
    """Parses a budget such as "24GiB", "512 MB" or a number to bytes."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z]*)\s*", budget) if isinstance(budget, str) else None
    if isinstance(budget, (int, float)) and not isinstance(budget, bool) and math.isfinite(budget):
        byte_count = int(budget)
    else:
        byte_count = int(float(match[1]) * BYTES_OF_UNITS.get(match[2].upper(), 0)) if match else 0
    if byte_count < 1:
        raise NoPlan(f"budget {budget!r} is no size; write it like 24GiB")
    return byte_count


def weakly_bound(method):
    """A function that calls a method by a weak reference to its object. PyTorch keeps compile functions alive, which must not keep the model."""
    weak_method = weakref.WeakMethod(method)
    return lambda *args, **kwargs: weak_method()(*args, **kwargs)


def close_slabs(slabs):
    while slabs:
        slabs.pop().close()


class PlanningCompiler:
    """Compiles the graphs that Dynamo finds, each with a plan."""

    def __init__(self, model, plan, optimizer, tier, bits, backend, effort, cuda_graphs=False):
        self.graphs = StepGraphs(plan) if cuda_graphs else None
        self.bits = bits
        self.share_count, self.costs, self.slabs = 1, None, []
        self.allocated_bytes = self.workspace_bytes = self.state_bytes = 0  # bytes before the first plan: all but workspaces, workspaces, the optimizer's states
        self.model, self.plan, self.optimizer, self.tier, self.backend, self.effort = model, plan, optimizer, tier, backend, effort
        self.only_plans, self.bytes_per_ns = False, 0
        weakref.finalize(self, close_slabs, self.slabs).atexit = False

    def is_on_gpu(self):
        return any(p.is_cuda for p in self.model.parameters())

    def free_host_memory(self):
        """Frees the host memory that the compiled graphs use for offloaded tensors."""
        close_slabs(self.slabs)

    @on_one_stack
    def compile(self, graph, inputs):
        """Compiles Dynamo's graph. Its losses are cut into the smallest number of shares for which there is a plan. No more shares are tried
        where these need no less memory."""
        refusals.check_fixed_sizes(graph.graph)
        if self.graphs:
            self.graphs.drop_recordings()
        if not self.allocated_bytes and self.is_on_gpu():
            self.measure_memory_before_plan()
        least_peak_bytes = math.inf
        for self.share_count in chunks.share_counts_to_try(graph.graph, self.plan.budget) if self.bits == "rounding" else [1]:
            try:
                return self.compile_in_shares(graph, inputs)
            except NoRoom as error:
                if self.plan.predicted["peak"] >= least_peak_bytes:
                    break
                least_peak_bytes, last_error = self.plan.predicted["peak"], error
        raise last_error

    def measure_memory_before_plan(self):
        """Frees garbage and the workspaces of cuBLAS, and stores how much memory was allocated before the first plan, and for what."""
        device = next(self.model.parameters()).device
        gc.collect()  # a fitted model that is no longer used holds its memory until then, since it refers to itself
        bytes_with_workspaces = torch.cuda.memory_allocated(device)
        private.free_cublas_workspaces()
        self.allocated_bytes = torch.cuda.memory_allocated(device)
        self.workspace_bytes = bytes_with_workspaces - self.allocated_bytes
        self.state_bytes = sum(t.numel() * t.element_size() for t in gpu_states_of(self.optimizer))

    def compile_in_shares(self, graph, inputs):
        return private.compile_graph(chunks.cut_losses_into_shares(graph, self.share_count), inputs, weakly_bound(self.plan_and_split), self.backend,
                                     self.graphs and weakly_bound(self.graphs.wrap_pass))

    def plan_and_split(self, joint, inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **others):
        begin_s = time.monotonic()
        device = torch.device(device_type_of(joint))
        on_gpu = device.type == "cuda"
        rates_per_ns = tabulated_rates_of(torch.cuda.get_device_name(device)) if on_gpu else RATES_BY_GPU[""]
        self.bytes_per_ns = rates_per_ns["bytes"]
        if on_gpu:
            self.plan.leave_slack()
        private.remove_dead_and_repeated_nodes(joint)
        self.costs = self.costs or costs_for(device)
        rates_per_ns = {**rates_per_ns, "link": self.costs.link_bytes_per_ns()} if self.tier else rates_per_ns
        unforeseen_bytes = self.plan.unforeseen.get(self.share_count, 0)

        def plan_graph(graph):
            """(its StepNodes, bytes on the device without its tensors, the planner's answer)."""
            step_nodes, pytorchs_choice = step_and_pytorchs_choice(graph, num_fwd_outputs, static_lifetime_input_indices, self.costs)
            if on_gpu:
                self.costs.free_memory()
                private.free_cublas_workspaces()  # frees the workspaces of the stream on which operators were measured
            base_bytes = self.base_bytes(step_nodes) + unforeseen_bytes
            with ThreadPoolExecutor(1) as thread:
                answer = thread.submit(ask_planner, step_nodes, self.plan.usable, base_bytes, rates_per_ns, self.backend == "inductor", pytorchs_choice,
                                       self.effort, self.tier, on_gpu, self.bits)
                if on_gpu and self.backend == "inductor" and not self.only_plans:
                    private.make_triton_key()
                gc.collect(1)  # collects what tracing left; stops the planner's thread, so it comes last
            return step_nodes, base_bytes, answer.result()

        graphs = skips.make_graph_variants(joint, self.plan.usable) if on_gpu and self.bits == "rounding" else [joint]
        joint, (step_nodes, base_bytes, planner_answer) = fastest_of(graphs, plan_graph, self.plan.usable)
        planner_answer["bound"] -= unforeseen_bytes  # subtracts memory that another plan may not need
        self.plan.store_answer(step_nodes, planner_answer, base_bytes, self.share_count)
        self.plan.untimed = sorted(self.costs.untimed)
        planning_s = time.monotonic() - begin_s
        self.plan.seconds += planning_s
        if planner_answer["plan"]["peak"] > self.plan.usable:
            least_text, bound_text = size_text(self.plan.min_budget()), size_text(self.plan.min_budget(self.plan.bound))
            raise NoRoom(f"no plan within {size_text(self.plan.budget)}; the least found is {least_text}, none is below {bound_text}")
        if self.only_plans:
            raise micro.PlanMade(f"planned in {planning_s:.1f} s")
        self.plan.plans += 1
        if self.graphs:
            self.graphs.result_count = num_fwd_outputs
            self.graphs.workspace_bytes = self.workspace_bytes // 2 if has_matrix_products(step_nodes) else 0
            self.plan.launched_because = "" if on_gpu else "the model is on the CPU"
        forward_module, backward_module = private.split_saving(joint, inputs, step_nodes.names_of(planner_answer["plan"]["saved"]),
                                                               num_fwd_outputs=num_fwd_outputs,
                                                               static_lifetime_input_indices=static_lifetime_input_indices, **others)
        if self.plan.offloaded:
            self.insert_copies(step_nodes, planner_answer["plan"]["offloaded"], forward_module, backward_module, num_fwd_outputs, on_gpu)
        self.plan.store_differences(forward_module, backward_module)
        if self.backend == "inductor":
            private.mark_nodes_to_store(backward_module, step_nodes.names_of(planner_answer["plan"]["stored"]))
        for module in (forward_module, backward_module):
            chunks.overwrite_sums(module)
            if self.backend == "inductor":
                rewrites.widen_in_each_reader(module)
            else:
                module.recompile()  # Inductor reads only the graph
        return forward_module, backward_module

    def insert_copies(self, step_nodes, moves, forward_module, backward_module, num_fwd_outputs, is_on_gpu):
        """Puts the copies of the plan's `moves`, [(tensor, gone_after_name, back_before_name)], into both graphs."""
        gpu_number = next(self.model.parameters()).device.index if is_on_gpu else None
        with private.allow_real_tensors():
            slab = copies.HostSlab([copies.spanned_bytes(step_nodes.nodes[number]) for number, _, _ in moves], self.tier, gpu_number)
        named_moves = [tuple(None if number is None else step_nodes.nodes[number].name for number in move) for move in moves]
        self.slabs.append(slab)
        copies.insert_copies(forward_module, backward_module, num_fwd_outputs, named_moves, slab)
        private.keep_operator_order()

    def predicted_and_unplanned_ms(self, part_count):
        """(predicted ms of a step in `part_count` parts by the last plan, the same by PyTorch's own choice). The time of a step is that of its parts,
        of the addition of their gradients, and of the product of these and the gradient of the loss."""
        gradient_bytes = sum(p.numel() * p.element_size() for p in self.model.parameters() if p.requires_grad)
        access_count = (part_count - 1) * micro.ACCESSES_OF_SUM + micro.ACCESSES_OF_SCALING * (part_count > 1)
        return tuple(part_count * prediction["ms"] + access_count * gradient_bytes / self.bytes_per_ns / 1e6
                     for prediction in (self.plan.predicted, self.plan.unplanned))

    def base_bytes(self, step_nodes):
        """Bytes on the device besides the tensors that the two graphs make."""
        trained_parameters = [p for p in self.model.parameters() if p.requires_grad]
        has_parts = self.plan.micro_batches > 1  # then there are also the sums of the gradients
        state_and_sum_bytes = (states_per_byte(self.optimizer) + has_parts) * sum(p.numel() * p.element_size() for p in trained_parameters)
        if self.allocated_bytes:
            # Each of the two threads that compute the passes has a workspace. One thread computes both passes of a part.
            workspace_bytes = self.workspace_bytes // (2 if has_parts else 1)
            return (self.allocated_bytes + (workspace_bytes if has_matrix_products(step_nodes) else 0)
                    + max(0, state_and_sum_bytes - self.state_bytes))
        return sum(fields["bytes"] for fields in step_nodes.node_fields if fields["resident"]) + state_and_sum_bytes


def has_matrix_products(step_nodes):
    return any(operator_name(node) in OPERATORS_WITH_WORKSPACE for node in step_nodes.nodes if node.op == "call_function")


def fastest_of(graphs, plan_graph, budget_bytes):
    """(graph, plan_graph(graph)) of the graph whose plan is the fastest of those that fit, else the one with the lowest peak. plan_graph()
    returns a tuple that ends with the planner's answer, whose `first_begin` becomes that of the first graph, and whose `lowest_bound` the lowest of
    all."""
    graphs_and_plans = [(graph, plan_graph(graph)) for graph in graphs]
    answers = [planned[-1] for _, planned in graphs_and_plans]
    first_begin, lowest_bound = answers[0]["begin"], min(answer["bound"] for answer in answers)
    graph, planned = min(graphs_and_plans,
                         key=lambda graph_and_plan: (max(budget_bytes, graph_and_plan[1][-1]["plan"]["peak"]), graph_and_plan[1][-1]["plan"]["ns"]))
    planned[-1].update(begin=first_begin, bound=lowest_bound)
    return graph, planned


def states_per_byte(optimizer):
    """Bytes of the optimizer's states for each byte of a parameter. Raises NoPlan for an unknown optimizer."""
    if optimizer is None:
        return 0
    name = optimizer if isinstance(optimizer, str) else (optimizer if isinstance(optimizer, type) else type(optimizer)).__name__
    if name not in STATES_PER_BYTE:
        raise NoPlan(f"what {name} keeps is not known; give one of {', '.join(STATES_PER_BYTE)} or None")
    has_momentum = isinstance(optimizer, torch.optim.Optimizer) and any(group.get("momentum") for group in optimizer.param_groups)
    return STATES_PER_BYTE[name] + (name == "SGD" and has_momentum)


def gpu_states_of(optimizer):
    """The tensors on a GPU that an optimizer holds; none if it is given as a class or a name."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return []
    return [value for states_of_parameter in optimizer.state.values() for value in states_of_parameter.values()
            if isinstance(value, torch.Tensor) and value.is_cuda]
