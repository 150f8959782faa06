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
        rows = [forecast_batch(options, factor) for factor in batch_factors(options)]
    except NoPlan as error:
        raise load.BadInput(f"{options.model}: {error}") from None
    print(f"{'batch':>6} {'fits':>5} {'peak':>10} {'unplanned':>10} {'slower':>7} {'kept':>10} {'offloaded':>10}  computed again")
    for _, _, row in rows:
        print(row)
    fitting = [batch for batch, fits, _ in rows if fits]
    print(f"largest batch that fits: {max(fitting)}" if fitting else f"none of these batches fits in {options.budget}")


def batch_factors(options):
    """[number of times that the example batch is repeated] for each batch to forecast."""
    if not options.batch:
        return [1]
    own = example_batch_size(options)
    if not own:
        raise load.BadInput(f"--batch: {options.model} gives no example input with a batch")
    for batch in options.batch:
        if batch < own or batch % own:
            raise load.BadInput(f"--batch {batch}: give multiples of {own}, the batch of the example inputs")
    return [batch // own for batch in options.batch]


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
    step, answer, batch, shares = plan_with_loss_shares(options, plan, batch_factor)
    made, own = answer["plan"], answer["begin"]
    again = Counter(operator_name(step.nodes[i]) for i in made["recomputed"] if step.node_fields[i]["kind"] == "kernel")
    told = ", ".join(f"{count} {name}" for name, count in again.most_common()) or "no product and no library call"
    told += f"; the loss in {shares} shares of its rows" if shares > 1 else ""
    fits, away = made["peak"] <= plan.usable, sum(step.node_fields[i]["bytes"] for i, _, _ in made["offloaded"])
    return (batch, fits, f"{batch:>6} {'yes' if fits else 'no':>5} {size_text(made['peak']):>10} {size_text(own['peak']):>10} {made['ns'] / own['ns']:>6.2f}x "
            f"{size_text(made['saved_bytes']):>10} {size_text(away):>10}  {told}")


def plan_with_loss_shares(options, plan, batch_factor):
    """(the Step, the planner's answer, the batch, number of shares of the loss) with the example inputs repeated `batch_factor` times. `begin` of
    the answer is PyTorch's own choice for the loss that is not cut."""
    from . import chunks

    whole = chunks.LossesInShares(1)
    joint = capture_joint(options, batch_factor, whole)
    tries = chunks.share_counts_to_try(whole.graph, plan.budget)
    own = None if tries[0] == 1 else plan_joint(options, plan.usable, joint, MIN_EFFORT)[1]["begin"]
    for shares in tries:
        if shares > 1:
            joint = capture_joint(options, batch_factor, chunks.LossesInShares(shares))
        step, answer = plan_joint(options, plan.usable, joint, options.effort)
        own = answer["begin"] = own or answer["begin"]
        if answer["plan"]["peak"] <= plan.usable:
            break
    given = [n.meta["val"] for n in joint.graph.graph.nodes if n.name in joint.names and not joint.is_parameter_or_buffer(n)]
    return step, answer, first_extent(given), shares


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
    """(the Step of the joint graph, the planner's answer)."""
    from . import skips
    from .costs import MachineCosts
    from .fit import fastest_of, has_matrix_products, states_per_byte
    from .planner import ask_planner
    from .step import step_and_pytorchs_choice

    costs = MachineCosts(read_machine(options.gpu.removeprefix("sim:")))

    def plan_graph(graph):
        step, begin = step_and_pytorchs_choice(graph, joint.num_fwd_outputs, joint.static_inputs, costs)
        resident = [fields["bytes"] for fields in step.node_fields if fields["resident"]]
        trained = sum(fields["bytes"] for fields in step.node_fields if fields["backward_result"])
        base = LIBRARY_BYTES * has_matrix_products(step) + sum(resident) + states_per_byte(options.optimizer) * trained
        return step, ask_planner(step, budget_bytes, base, costs.rates, True, begin, effort, None if options.tier == "none" else options.tier)

    return fastest_of(skips.make_graph_variants(joint.graph, budget_bytes), plan_graph, budget_bytes)[1]
