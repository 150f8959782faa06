"""How long each operator of a traced graph takes, by PyTorch's profiler."""

import torch
from torch_tracing import trace, with_loss

ROUNDS = 3
PREFIX = "node:"


class Marked(torch.fx.Interpreter):
    def run_node(self, n):
        with torch.profiler.record_function(PREFIX + n.name):
            return super().run_node(n)


def times_of(factory, converter, device):
    """Nanoseconds by the node's name: the shortest of some rounds. The model is built on `device` and its joint graph run there."""
    with torch.device(device):
        model, inputs = factory()
        model = model.to(device).train()
        inputs = tuple(each.to(device) if isinstance(each, torch.Tensor) else each for each in inputs)
        module, inputs, _ = with_loss(model, inputs)
        graph, _ = torch._functorch.aot_autograd.aot_export_module(module, inputs, trace_joint=True, output_loss_index=0)
    known = {n.name for n in converter.nodes}
    operands = [*dict(module.named_parameters(remove_duplicate=False)).values(),
                *dict(module.named_buffers(remove_duplicate=False)).values(), *inputs]
    times = {}
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if "cuda" in device else [])
    for number in range(ROUNDS + 1):
        with torch.profiler.profile(activities=kinds) as profile, torch.no_grad():
            Marked(graph).run(*operands)
        for row in profile.key_averages() if number else ():
            name = row.key.removeprefix(PREFIX)
            spent = row.device_time_total if "cuda" in device else row.cpu_time_total
            if row.key.startswith(PREFIX) and name in known and spent > 0:
                times[name] = min(times.get(name, float("inf")), round(spent * 1000))
    return times
