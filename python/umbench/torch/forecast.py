"""Predicts what fit would make of a model on a GPU, which need not be present: whether it fits, how much slower it gets, and what is done.

MODEL.py:FUNCTION names a function without arguments that returns (model, inputs), the batch first. Nothing is run: the graph is
traced with fake tensors, and times follow a machine file. A batch is not computed in parts here."""

from umbench import load, model_arguments

from .export import load_function, read_machine

MIN_EFFORT = 0.001
LIBRARY_BYTES = 65 * 2**20  # workspaces of cuBLAS for the threads of the two passes, measured on an H100 with torch 2.11


def main(options):
    """Prints the forecast. model_arguments.parse_fit() returned `options`."""
    from .planner import NoPlan

    try:
        forecasts = [forecast_batch(options, factor) for factor in batch_factors(options)]
    except NoPlan as error:
        raise load.BadInput(f"{options.model}: {error}") from None
    print(f"{'batch':>6} {'fits':>5} {'peak':>10} {'unplanned':>10} {'slower':>7} {'kept':>10} {'offloaded':>10}  computed again")
    for _, _, table_row in forecasts:
        print(table_row)
    fitting_batches = [batch for batch, batch_fits, _ in forecasts if batch_fits]
    print(f"largest batch that fits: {max(fitting_batches)}" if fitting_batches else f"none of these batches fits in {options.budget}")


def batch_factors(options):
    """[number of times that the example batch is repeated] for each batch to forecast."""
    if not options.batch:
        return [1]
    example_batch = example_batch_size(options)
    if not example_batch:
        raise load.BadInput(f"--batch: {options.model} gives no example input with a batch")
    for batch in options.batch:
        if batch < example_batch or batch % example_batch:
            raise load.BadInput(f"--batch {batch}: give multiples of {example_batch}, the batch of the example inputs")
    return [batch // example_batch for batch in options.batch]


def example_batch_size(options):
    import torch

    inputs = load_function(options.model)()[1]
    return first_extent([inputs] if isinstance(inputs, torch.Tensor) else inputs)


def forecast_batch(options, batch_factor):
    """(batch, whether it fits, row of the table) with the example inputs repeated `batch_factor` times."""
    from collections import Counter

    from .fit import parse_budget
    from .operators import operator_name
    from .plan import Plan, size_text

    plan = Plan(parse_budget(options.budget))
    plan.leave_slack()
    step_nodes, planner_answer, batch, share_count = plan_with_loss_shares(options, plan, batch_factor)
    plan_answer, unplanned_answer = planner_answer["plan"], planner_answer["begin"]
    recomputed_counts = Counter(operator_name(step_nodes.nodes[number]) for number in plan_answer["recomputed"]
                                if step_nodes.node_fields[number]["kind"] == "kernel")
    recomputed_text = ", ".join(f"{count} {name}" for name, count in recomputed_counts.most_common()) or "no product and no library call"
    recomputed_text += f"; the loss in {share_count} shares of its rows" if share_count > 1 else ""
    plan_fits = plan_answer["peak"] <= plan.usable
    offloaded_bytes = sum(step_nodes.node_fields[number]["bytes"] for number, _, _ in plan_answer["offloaded"])
    return (batch, plan_fits, f"{batch:>6} {'yes' if plan_fits else 'no':>5} "
            f"{size_text(plan_answer['peak']):>10} {size_text(unplanned_answer['peak']):>10} "
            f"{plan_answer['ns'] / unplanned_answer['ns']:>6.2f}x "
            f"{size_text(plan_answer['saved_bytes']):>10} {size_text(offloaded_bytes):>10}  {recomputed_text}")


def plan_with_loss_shares(options, plan, batch_factor):
    """(the StepNodes, the planner's answer, the batch, number of shares of the loss) with the example inputs repeated `batch_factor` times. `begin`
    of the answer is PyTorch's own choice for the loss that is not cut."""
    from . import chunks

    losses_in_one_share = chunks.LossesInShares(1)
    joint = capture_joint(options, batch_factor, losses_in_one_share)
    share_counts = chunks.share_counts_to_try(losses_in_one_share.graph, plan.budget)
    unplanned_answer = None if share_counts[0] == 1 else plan_joint(options, plan.usable, joint, MIN_EFFORT)[1]["begin"]
    for share_count in share_counts:
        if share_count > 1:
            joint = capture_joint(options, batch_factor, chunks.LossesInShares(share_count))
        step_nodes, planner_answer = plan_joint(options, plan.usable, joint, options.effort)
        unplanned_answer = planner_answer["begin"] = unplanned_answer or planner_answer["begin"]
        if planner_answer["plan"]["peak"] <= plan.usable:
            break
    example_inputs = [n.meta["val"] for n in joint.graph.graph.nodes if n.name in joint.name_of_input and not joint.is_parameter_or_buffer(n)]
    return step_nodes, planner_answer, first_extent(example_inputs), share_count


def first_extent(inputs):
    """The first extent of the first tensor that has one; 0 if none has."""
    return next((x.shape[0] for x in inputs if getattr(x, "shape", ())), 0)


def capture_joint(options, batch_factor, losses_in_shares):
    """The capture.Joint of the model. `losses_in_shares`: a chunks.LossesInShares."""
    import torch

    from . import capture, private

    try:
        joint = capture.capture_joint(load_function(options.model), compiled=True, batch_factor=batch_factor, losses_in_shares=losses_in_shares,
                                autocast=getattr(torch, model_arguments.AUTOCAST_TYPES[options.autocast]) if options.autocast else None)
    except capture.CannotExport as error:
        raise load.BadInput(f"{options.model}: {error}") from None
    private.remove_dead_and_repeated_nodes(joint.graph)
    return joint


def plan_joint(options, budget_bytes, joint, effort):
    """(the StepNodes of the joint graph, the planner's answer)."""
    from . import skips
    from .costs import MachineCosts
    from .fit import fastest_of, has_matrix_products, states_per_byte
    from .planner import ask_planner
    from .step import step_and_pytorchs_choice

    costs = MachineCosts(read_machine(options.gpu.removeprefix("sim:")))

    def plan_graph(graph):
        step_nodes, numbers_saved_by_pytorch = step_and_pytorchs_choice(graph, joint.num_fwd_outputs, joint.static_input_numbers, costs)
        resident_bytes = [fields["bytes"] for fields in step_nodes.node_fields if fields["resident"]]
        gradient_bytes = sum(fields["bytes"] for fields in step_nodes.node_fields if fields["backward_result"])
        base_bytes = LIBRARY_BYTES * has_matrix_products(step_nodes) + sum(resident_bytes) + states_per_byte(options.optimizer) * gradient_bytes
        return step_nodes, ask_planner(step_nodes, budget_bytes, base_bytes, costs.rates, True,
                                       numbers_saved_by_pytorch, effort, None if options.tier == "none" else options.tier)

    return fastest_of(skips.make_graph_variants(joint.graph, budget_bytes), plan_graph, budget_bytes)[1]
