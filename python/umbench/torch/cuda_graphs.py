"""Replays the two passes of a fitted step as CUDA graphs, since the CPU may take longer to launch kernels one by one than they run.

Both passes are recorded in a memory pool of their own. It is mapped in one piece, and its tensors are placed as arena.py places those of
launched steps. A step that differs from the recorded one is launched, with the same result."""

import gc
import weakref

import torch

from . import copies, placing, private, steering
from .arena import GRAIN_BYTES, PAGE_BYTES, FreePieces

MAX_RESULT_BYTES = 2**20   # bytes of a result of the forward pass, since each step copies it
MIN_LIKE_STEPS = 2     # successive like steps before a recording
SMALL_BYTES = 2**22  # of the budget that are left for a pool's small allocations
POOL_SIZES_TRIED = 3      # sizes of a pool, each a page less, since another packing may find places
MIN_REPLAYS = 50    # after fewer replays, twice as many like steps precede the next recording


class NotRecorded(Exception):
    """Why a step cannot be recorded."""


def is_on_gpu(value):
    return isinstance(value, torch.Tensor) and value.is_cuda


class TensorLayout:
    """Where an input or output of a pass lies. `kept`: the value itself; None if its memory on the GPU may be freed."""

    def __init__(self, value):
        self.is_on_gpu = is_on_gpu(value)
        self.kept = None if self.is_on_gpu else value
        self.address = value.data_ptr() if isinstance(value, torch.Tensor) else None
        if self.is_on_gpu:
            self.size, self.stride, self.dtype, self.device = tuple(value.shape), value.stride(), value.dtype, value.device
            self.offset, storage = value.storage_offset(), value.untyped_storage()
            self.storage_address, self.storage_bytes = storage.data_ptr(), storage.nbytes()

    def make_tensor(self, storage_of_address):
        """The kept value, or a tensor there that does not keep its memory. `storage_of_address` gets the storages that it lacks."""
        if self.kept is not None or not self.is_on_gpu:
            return self.kept
        if self.storage_address not in storage_of_address:
            storage_of_address[self.storage_address] = private.unowned_storage_at(self.storage_address, self.device, self.storage_bytes)
        return torch.empty(0, dtype=self.dtype, device=self.device).set_(storage_of_address[self.storage_address], self.offset, self.size, self.stride)


class CompiledPass:
    """A compiled pass of a step. `launch`: runs its kernels for a list of inputs, which it empties. `inputs`: [(address, bytes)] of the last
    inputs on the GPU, 0 for others. `moving`: positions of those that have changed. `recorded`: its PassRecording, or None."""

    def __init__(self, step_graphs, launch, is_backward):
        self.step, self.launch, self.is_backward = weakref.ref(step_graphs), launch, is_backward
        self.inputs, self.moving, self.recorded = [], set(), None
        self.begins, self.ends = placing.BACKWARD_POINTS if is_backward else placing.FORWARD_POINTS

    def __call__(self, inputs):
        step_graphs = self.step()
        return step_graphs.run_pass(self, inputs) if step_graphs else self.launch(inputs)

    def launch_and_mark_points(self, inputs):
        previous_inputs = self.inputs
        self.inputs = [(each.data_ptr(), each.numel() * each.element_size()) if is_on_gpu(each) else 0 for each in inputs]
        self.moving |= {i for i, (previous, current) in enumerate(zip(previous_inputs, self.inputs)) if previous != current}
        placing.reach_pass_point(self.begins)
        outputs = self.launch(inputs)
        placing.reach_pass_point(self.ends)
        return outputs


class PassRecording:
    """A recorded pass. `input_addresses`: None for what is no tensor. `copy_of_input`: {position of an input: tensor to which each replay
    copies it}. `outputs`: of each replay; those at `pooled_positions` lie in the pool."""

    def __init__(self, cuda_graph, input_addresses, copy_of_input, outputs, pooled_positions):
        self.graph, self.addresses, self.copied, self.outputs, self.pooled = cuda_graph, input_addresses, copy_of_input, outputs, frozenset(pooled_positions)
        storages = {outputs[i].untyped_storage().data_ptr(): outputs[i].untyped_storage() for i in pooled_positions}
        self.use_counts = [(storage, private.use_count_of(storage)) for storage in storages.values()]  # those of the recording itself

    def accepts_inputs(self, inputs):
        """Whether the inputs lie where the recorded ones did, apart from those that are copied."""
        return all(address is None or i in self.copied or each.data_ptr() == address for i, (each, address) in enumerate(zip(inputs, self.addresses)))

    def has_outputs_in_use(self):
        """Whether outputs of an earlier replay are alive."""
        return any(private.use_count_of(storage) > own_count for storage, own_count in self.use_counts)

    def replay(self, inputs):
        for i, own_copy in self.copied.items():
            own_copy.copy_(inputs[i])
        inputs.clear()
        self.graph.replay()
        return [output if is_on_gpu(output) and i not in self.pooled or not isinstance(output, torch.Tensor) else output.detach()
                for i, output in enumerate(self.outputs)]


class StepGraphs:
    """The CUDA graphs of one model's step. `plan`: its Plan. `result_count`: the number of the forward pass's outputs that are not saved.
    `workspace_bytes`: bytes that cuBLAS needs in each pass. `state`: "launched", "recording" or "replayed"."""

    def __init__(self, plan):
        self.plan, self.stream, self.workspace_bytes, self.lacks_workspaces = plan, None, 0, False
        self.forget_passes()

    def forget_passes(self):
        """Forgets the passes of an earlier plan."""
        self.passes, self.result_count, self.run_counts = [], 0, [0, 0]
        self.like_step_count, self.like_steps_needed, self.replay_count = 0, MIN_LIKE_STEPS, 0
        self._set_state("launched")

    def wrap_pass(self, launch, is_backward):
        """The function that runs a compiled pass."""
        self.passes.append(CompiledPass(self, launch, is_backward))
        return self.passes[-1]

    @torch.no_grad()
    def run_pass(self, compiled_pass, inputs):
        """Launches, records or replays a pass. Returns its outputs."""
        self.run_counts[compiled_pass.is_backward] += 1
        if self.state == "recording" and compiled_pass.recorded is None:
            return self._record(compiled_pass, inputs)
        if self.state == "replayed":
            if compiled_pass.recorded and compiled_pass.recorded.accepts_inputs(inputs) and not self._would_overwrite(compiled_pass):
                return self._replay(compiled_pass, inputs)
            if not compiled_pass.is_backward:
                self.drop_recordings()
        return compiled_pass.launch_and_mark_points(inputs)

    def begin_step(self, arena, model):
        """Notes that a training step begins. Returns whether its tensors will lie in the pool; otherwise the arena places them."""
        run_counts, self.run_counts = self.run_counts, [0, 0]
        if self.state == "replayed":
            return True
        if self.state == "recording":
            self.drop_recordings()  # the backward pass never ran
        self._restore_workspaces()
        if self.plan.launched_because:
            return False
        is_alike = run_counts == [1, 1] and all(parameter.grad is None for parameter in model.parameters())
        self.like_step_count = self.like_step_count + 1 if is_alike else 0
        if self.like_step_count < self.like_steps_needed:
            return False
        self.like_step_count = 0
        try:
            self._begin_recording(arena, model)
        except NotRecorded as error:
            self.plan.launched_because = str(error)
            self._restore_workspaces()
        return self.state == "recording"

    def drop_recordings(self):
        """Frees the pool, unless a backward pass waits for tensors there. Steps are launched from then on, and later recorded again."""
        if self.state == "launched" or any(each.recorded.has_outputs_in_use() for each in self.passes if each.recorded and not each.is_backward):
            return
        placing.set_follower(None)
        torch.cuda.synchronize(self.device)
        for each in self.passes:
            each.recorded = None
        self.like_steps_needed = MIN_LIKE_STEPS if self.replay_count >= MIN_REPLAYS else 2 * self.like_steps_needed
        self.like_step_count, self.lacks_workspaces = 0, self.workspace_bytes > 0
        self._set_state("launched")
        private.free_cublas_workspaces()
        torch.cuda.empty_cache()

    def _set_state(self, state):
        self.state, self.plan.is_replayed = state, state == "replayed"

    def _would_overwrite(self, compiled_pass):
        """Whether a replay of the pass would overwrite tensors of an earlier step that are in use."""
        return any(each.recorded.has_outputs_in_use() for each in self.passes if each.recorded and (each.is_backward or not compiled_pass.is_backward))

    def _restore_workspaces(self):
        if self.lacks_workspaces:
            allocate_cublas_workspaces(self.device)
            self.lacks_workspaces = False

    def _begin_recording(self, arena, model):
        """Finds places in the pool for the tensors of both passes, first without giving any memory back. Raises NotRecorded if there are none."""
        requests_and_outside_bytes = arena.requests_of_passes()
        self.passes.sort(key=lambda each: each.is_backward)
        if len(self.passes) > 2:
            raise NotRecorded("the model was compiled more than once, as for another input shape or mode")
        if [each.is_backward for each in self.passes] != [False, True] or requests_and_outside_bytes is None:
            raise NotRecorded("a step is more than one forward and one backward pass")
        requests, outside_bytes = requests_and_outside_bytes
        self.arena, self.device, forward_pass = arena, arena.device, self.passes[0]
        self.steady_addresses = {each.data_ptr() for each in [*model.parameters(), *model.buffers()]}
        self.steady_addresses |= {each[0] for i, each in enumerate(forward_pass.inputs) if each and i not in forward_pass.moving}
        copied_bytes = [each[1] for each in forward_pass.inputs if each and each[0] not in self.steady_addresses]
        requests = with_recorded_tensors(requests, self.workspace_bytes, copied_bytes,
                                         *map(arena.points.index, (placing.FORWARD_POINTS[1], placing.BACKWARD_POINTS[0])))
        free_bytes = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device) + 2 * self.workspace_bytes
        # not all that is free fills pages
        page_count, hold_changes = self._find_holds(requests,
                                                    (arena.mappable_bytes() + free_bytes - outside_bytes - SMALL_BYTES) // PAGE_BYTES - 1)
        placing.set_follower(None)
        gc.collect()
        torch.cuda.synchronize(self.device)
        if self.workspace_bytes:
            private.free_cublas_workspaces()
            self.lacks_workspaces = True
        torch.cuda.empty_cache()
        fitting_page_count = (arena.mappable_bytes() - outside_bytes - SMALL_BYTES) // PAGE_BYTES
        if fitting_page_count < page_count:
            page_count, hold_changes = self._find_holds(requests, fitting_page_count)
        self.stream = self.stream or torch.cuda.Stream(self.device)
        self.page_count, self.pool, self.slots = page_count, torch.cuda.graph_pool_handle(), []
        self.holds = placing.HoldingFollower(arena.points, hold_changes, self.stream.cuda_stream)
        self._set_state("recording")

    def _find_holds(self, requests, max_page_count):
        """(pages of the pool, the changes of held pieces with which the requests find room there). Raises NotRecorded if there are none."""
        if max_page_count <= 0:
            raise NotRecorded("the budget leaves no room for a pool")
        for page_count in range(max_page_count, max(0, max_page_count - POOL_SIZES_TRIED), -1):
            hold_changes, lacking_bytes = steering.find_holds(requests, FreePieces([(page_count * PAGE_BYTES, 2**40)]), 0, page_count * PAGE_BYTES)
            if hold_changes is not None:
                return page_count, hold_changes
            if lacking_bytes:
                break
        raise NotRecorded(f"no places are found for the tensors in a pool of {max_page_count * PAGE_BYTES >> 20} MiB")

    def _record(self, compiled_pass, inputs):
        """Records a pass and replays it. If it cannot be recorded, launches it."""
        layouts = [TensorLayout(each) for each in inputs]
        try:
            graph, copy_of_input, outputs = self._capture(compiled_pass, inputs, layouts)
        except NotRecorded as error:
            self.plan.launched_because = str(error)
            return self._launch_instead(compiled_pass, layouts)
        except (AttributeError, NameError, TypeError):
            raise  # these are faults of the program, not of a kernel
        except Exception as error:  # noqa: BLE001  kernels that cannot be recorded raise errors of many types
            self.plan.launched_because = f"a pass cannot be recorded: {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            return self._launch_instead(compiled_pass, layouts)
        for i, own_copy in copy_of_input.items():
            own_copy.copy_(layouts[i].kept)
        graph.replay()
        keep_pass = self._keep_backward if compiled_pass.is_backward else self._keep_forward
        return keep_pass(compiled_pass, graph, [layout.address for layout in layouts], copy_of_input, outputs)

    def _launch_instead(self, compiled_pass, layouts):
        placing.set_follower(None)
        if not compiled_pass.is_backward:
            self.drop_recordings()
            if self.arena.map_memory():
                self.arena.begin_step()
        storage_of_address = {}
        outputs = compiled_pass.launch_and_mark_points([layout.make_tensor(storage_of_address) for layout in layouts])
        if compiled_pass.is_backward:
            torch.cuda.synchronize(self.device)
            self.drop_recordings()
        return outputs

    def _capture(self, compiled_pass, inputs, layouts):
        """(CUDA graph, {position: own tensor for an input}, outputs) of a pass. Keeps the inputs that are not in the pool in `layouts`."""
        if compiled_pass.is_backward and not self.saved_addresses <= {layout.address for layout in layouts}:
            raise NotRecorded("tensors of another forward pass are given")
        saved_addresses, steady_addresses = (self.saved_addresses, self.known_addresses) if compiled_pass.is_backward else ((), self.steady_addresses)
        for i, layout in enumerate(layouts):
            if layout.address not in saved_addresses:
                layout.kept = inputs[i]
        moved_positions = [i for i, layout in enumerate(layouts)
                           if layout.is_on_gpu and layout.address not in saved_addresses and layout.address not in steady_addresses]
        torch.cuda.synchronize(self.device)
        graph, copy_of_input = torch.cuda.CUDAGraph(), {}
        with torch.cuda.stream(self.stream):
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                if compiled_pass.is_backward:
                    placing.reach_pass_point(compiled_pass.begins)
                else:
                    map_pages(self.page_count, self.device)
                for i in moved_positions:
                    inputs[i] = copy_of_input[i] = torch.empty_like(layouts[i].kept)
                    if copy_of_input[i].stride() != layouts[i].stride:
                        raise NotRecorded("elements of an input overlap or have gaps")
                if self.workspace_bytes:
                    use_cublas(self.device)  # after the copies, which its results would overwrite in each replay
                if not compiled_pass.is_backward:
                    placing.set_follower(self.holds)
                    self.holds.begin_step()
                    placing.reach_pass_point(compiled_pass.begins)
                outputs = list(compiled_pass.launch(inputs))
                placing.reach_pass_point(compiled_pass.ends)
            finally:
                graph.capture_end()
                private.free_cublas_workspaces()  # the other pass may use that memory
        return graph, copy_of_input, outputs

    def _keep_forward(self, compiled_pass, cuda_graph, input_addresses, copy_of_input, outputs):
        """Keeps the recorded forward pass. Returns its outputs; the backward pass frees those that are saved."""
        self.known_addresses = {each.data_ptr() for each in copy_of_input.values()} | set(input_addresses)
        pooled_positions = [i for i, each in enumerate(outputs) if is_on_gpu(each) and each.data_ptr() not in self.known_addresses]
        self.saved_addresses = {outputs[i].data_ptr() for i in pooled_positions if i >= self.result_count}
        storage_of_address, unowned_outputs = {}, list(outputs)
        for i in pooled_positions:
            unowned_outputs[i] = TensorLayout(outputs[i]).make_tensor(storage_of_address)
        del storage_of_address
        compiled_pass.recorded = PassRecording(cuda_graph, input_addresses, copy_of_input, unowned_outputs, pooled_positions)
        self.slots = [(i, slot) for i, each in enumerate(outputs) if isinstance(each, torch.Tensor) and not is_on_gpu(each) for slot in copies.slots_at(each.data_ptr())]
        if any(outputs[i].numel() * outputs[i].element_size() > MAX_RESULT_BYTES for i in pooled_positions if i < self.result_count):
            self.plan.launched_because = "the forward pass has a large result"
        return [each.clone() if i < self.result_count and i in pooled_positions else each for i, each in enumerate(outputs)]

    def _keep_backward(self, compiled_pass, cuda_graph, input_addresses, copy_of_input, outputs):
        """Keeps the recorded backward pass, unless the pool does not fit into the budget. Returns its outputs."""
        placing.set_follower(None)
        pooled_positions = [i for i, each in enumerate(outputs) if is_on_gpu(each)]
        compiled_pass.recorded = PassRecording(cuda_graph, input_addresses, copy_of_input, outputs, pooled_positions)
        self.replay_count = 0
        self._set_state("replayed")
        returned_outputs = [each.detach() if i in compiled_pass.recorded.pooled else each for i, each in enumerate(outputs)]
        if torch.cuda.memory_reserved(self.device) > self.plan.budget:
            self.plan.launched_because = "the pool exceeds the budget"
        if self.plan.launched_because:
            torch.cuda.synchronize(self.device)
            self.drop_recordings()
        return returned_outputs

    def _replay(self, compiled_pass, inputs):
        outputs = compiled_pass.recorded.replay(inputs)
        self.replay_count += compiled_pass.is_backward
        for i, slot in self.slots:
            slot.is_awaited = not compiled_pass.is_backward
            if slot.is_awaited:
                slot.view = weakref.ref(outputs[i])
        if not compiled_pass.is_backward:
            for i in compiled_pass.recorded.pooled:
                if i < self.result_count:
                    outputs[i] = outputs[i].clone()
        return outputs


def allocate_cublas_workspaces(device):
    """Makes cuBLAS allocate its workspaces in the threads of both passes, so that they are measured."""
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.ones(16, 16, device=device, dtype=dtype, requires_grad=True)
        with torch.enable_grad():
            torch.autograd.backward((a @ a).sum(), inputs=[a])
    torch.cuda.synchronize(device)


def map_pages(page_count, device):
    """Makes the allocator map that many pages as one free piece. It counts how often it maps memory of a pool, and fails to give back more pieces
    than it has mapped: so each page is mapped by itself."""
    pages = [torch.empty(PAGE_BYTES, dtype=torch.uint8, device=device) for _ in range(page_count)]
    pages.clear()


def use_cublas(device):
    """Makes cuBLAS allocate its workspaces for the current stream in this thread."""
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.empty(16, 16, device=device, dtype=dtype)
        torch.mm(a, a)


def with_recorded_tensors(requests, workspace_bytes, input_bytes, forward_end_point, backward_begin_point):
    """The requests of both passes with those that recording adds: a workspace until `forward_end_point`, one from `backward_begin_point`
    on, and copies of inputs, which stay. Small allocations are left out."""
    def rounded_large(byte_counts):
        return [-(-size // GRAIN_BYTES) * GRAIN_BYTES for size in byte_counts if size > steering.MAX_SMALL_BYTES]

    last_point = max((request[3] for request in requests), default=0)
    added_lifetimes = [(-3 - index, size, -1, last_point) for index, size in enumerate(rounded_large(input_bytes))]
    added_lifetimes += [(key, size, begin_point, end_point)
                        for size in rounded_large([workspace_bytes])
                        for key, begin_point, end_point in ((-1, -1, forward_end_point), (-2, backward_begin_point, last_point))]
    allocations = [(True, key, size, begin_point) for key, size, begin_point, _ in added_lifetimes]
    frees = [(False, key, size, end_point) for key, size, _, end_point in added_lifetimes]
    return sorted([*allocations, *frees, *requests], key=lambda request: request[3])
