"""The cross entropy of eager PyTorch, whose four operators correspond to two of umbench.

For logits of shape (batch, length, classes), such as GPT-2's, the four operators remain, cut into rows: a separate operator counts the labels
that are not ignored, and the loss is the sum over the rows divided by that count.
"""

from .operators import PLAIN_VIEWS, operator_name
from .walk import View


def map_log_softmax(walk, node):
    logits = walk.plain_tensor(node.args[0])
    users = _operators_reading(node)
    loss_operator_names = {"nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data"}
    if logits is None or node.args[1] != 1 or logits.shape[2:] != [1, 1] or {operator_name(u) for u in users} - loss_operator_names:
        return False
    forward_losses = [u for u in users if operator_name(u) == "nll_loss_forward"]
    if len(forward_losses) != 1 or not _is_plain_nll(forward_losses[0].args) or logits.shape != [*node.meta["val"].shape, 1, 1]:
        return False
    for user in users:
        if operator_name(user) == "nll_loss_backward" and user.args[0].op != "placeholder":
            return False
    probabilities = walk.add_result(node, "probabilities")
    walk.losses[probabilities] = logits
    walk.views[node] = View(probabilities)
    return True


def map_nll_loss_forward(walk, node):
    probabilities, labels = walk.plain_tensor(node.args[0]), walk.plain_tensor(node.args[1])
    if probabilities not in walk.losses or labels is None:
        return _add_loss_by_rows(walk, node)
    loss = walk.add_result(node, "loss", 0)
    walk.views[node] = [View(loss), None]
    walk.add_op(node, "loss", "softmax_cross_entropy", {}, [walk.losses[probabilities], labels], [loss, probabilities])
    return True


def map_nll_loss_backward(walk, node):
    probabilities = walk.plain_tensor(node.args[1])
    if probabilities not in walk.losses:
        return _add_loss_gradient_by_rows(walk, node)
    walk.views[node] = None
    return True


def map_log_softmax_backward_data(walk, node):
    probabilities = walk.plain_tensor(node.args[1])
    if probabilities not in walk.losses:
        return False
    labels = walk.plain_tensor(node.args[0].args[2])
    dlogits = walk.add_result(node, "dlogits")
    walk.views[node] = View(dlogits)
    walk.add_op(node, "loss.backward", "softmax_cross_entropy_backward", {}, [probabilities, labels], [dlogits])
    return True


def _add_loss_by_rows(walk, node):
    if not _can_be_cut_into_rows(walk, node.args[0], node.args[1]) or not _is_plain_nll(node.args):
        return False
    log_probabilities, labels = (walk.views[operand_node].tensor for operand_node in node.args[:2])
    label_count, loss = walk.add_result(node, "loss.labels", 1), walk.add_result(node, "loss", 0)
    walk.views[node] = [View(loss), View(label_count)]
    row_count = node.args[1].meta["val"].numel()
    walk.add_op(node, "loss.labels", "opaque", {"label": "count_labels", "flops": row_count, "bytes": 8 * row_count}, [labels], [label_count])
    flops, moved_bytes, _ = walk.work_of(node)
    walk.add_op(node, "loss", "opaque", {"label": "nll_loss_forward", "flops": flops, "bytes": moved_bytes,
                                         "cut": {"in": ["part", "part", "whole"], "out": ["sum"]}}, [log_probabilities, labels, label_count], [loss])
    return True


def _add_loss_gradient_by_rows(walk, node):
    loss_gradient_view, label_count_view = walk.views.get(node.args[0]), walk.views.get(node.args[6])
    if (not _can_be_cut_into_rows(walk, node.args[1], node.args[2])
            or not isinstance(loss_gradient_view, View) or not isinstance(label_count_view, View)):
        return False
    log_probabilities, labels = (walk.views[operand_node].tensor for operand_node in node.args[1:3])
    logits_gradient = walk.add_result(node, "loss.backward.y")
    walk.views[node] = View(logits_gradient)
    flops, moved_bytes, _ = walk.work_of(node)
    walk.add_op(node, "loss.backward", "opaque", {"label": "nll_loss_backward", "flops": flops, "bytes": moved_bytes,
                                                  "cut": {"in": ["whole", "part", "part", "whole"], "out": ["part"]}},
                [loss_gradient_view.tensor, log_probabilities, labels, label_count_view.tensor], [logits_gradient])
    return True


def _can_be_cut_into_rows(walk, *nodes):
    views = [walk.views.get(node) for node in nodes]
    return (bool(walk.twice) and walk.samples > 1 and all(isinstance(v, View) and v.tensor.has_batch for v in views)
            and all(walk.relation_to_batch(node) == "batch" for node in nodes))


def _operators_reading(node):
    """The operators that read a value, directly or through views."""
    readers = []
    for user in node.users:
        readers += _operators_reading(user) if operator_name(user) in PLAIN_VIEWS else [user]
    return readers


def _is_plain_nll(nll_arguments):
    return nll_arguments[2] is None and nll_arguments[3] == 1 and nll_arguments[4] == -100


MAP_FUNCTIONS = {name.removeprefix("map_"): function for name, function in list(globals().items()) if name.startswith("map_")}
