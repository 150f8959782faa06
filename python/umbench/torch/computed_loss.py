"""The cross entropy of eager PyTorch, whose four operators correspond to two of umbench.

Logits of shape (batch, length, classes), as of GPT-2, keep their four operators. These can be cut into rows: an operator of its
own counts the labels that are not ignored, and the loss is the sum of the rows over that count.
"""

from .operators import PLAIN_VIEWS, name_of
from .walk import View


def map_log_softmax(c, node):
    logits = c.plain(node.args[0])
    users = _readers(node)
    ends = {"nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data"}
    if logits is None or node.args[1] != 1 or logits.shape[2:] != [1, 1] or {name_of(u) for u in users} - ends:
        return False
    heads = [u for u in users if name_of(u) == "nll_loss_forward"]
    if len(heads) != 1 or not _is_plain_nll(heads[0].args) or logits.shape != [*node.meta["val"].shape, 1, 1]:
        return False
    for user in users:
        if name_of(user) == "nll_loss_backward" and user.args[0].op != "placeholder":
            return False
    probabilities = c.result(node, "probabilities")
    c.losses[probabilities] = logits
    c.views[node] = View(probabilities)
    return True


def map_nll_loss_forward(c, node):
    probabilities, labels = c.plain(node.args[0]), c.plain(node.args[1])
    if probabilities not in c.losses or labels is None:
        return _forward_in_rows(c, node)
    loss = c.result(node, "loss", 0)
    c.views[node] = [View(loss), None]
    c.emit(node, "loss", "softmax_cross_entropy", {}, [c.losses[probabilities], labels], [loss, probabilities])
    return True


def map_nll_loss_backward(c, node):
    probabilities = c.plain(node.args[1])
    if probabilities not in c.losses:
        return _backward_in_rows(c, node)
    c.views[node] = None
    return True


def map_log_softmax_backward_data(c, node):
    probabilities = c.plain(node.args[1])
    if probabilities not in c.losses:
        return False
    labels = c.plain(node.args[0].args[2])
    dlogits = c.result(node, "dlogits")
    c.views[node] = View(dlogits)
    c.emit(node, "loss.backward", "softmax_cross_entropy_backward", {}, [probabilities, labels], [dlogits])
    return True


def _forward_in_rows(c, node):
    if not _goes_in_rows(c, node.args[0], node.args[1]) or not _is_plain_nll(node.args):
        return False
    scores, labels = (c.views[each].tensor for each in node.args[:2])
    count, loss = c.result(node, "loss.labels", 1), c.result(node, "loss", 0)
    c.views[node] = [View(loss), View(count)]
    rows = node.args[1].meta["val"].numel()
    c.emit(node, "loss.labels", "opaque", {"label": "count_labels", "flops": rows, "bytes": 8 * rows}, [labels], [count])
    flops, moved, _ = c.work_of(node)
    c.emit(node, "loss", "opaque", {"label": "nll_loss_forward", "flops": flops, "bytes": moved,
                                    "cut": {"in": ["part", "part", "whole"], "out": ["sum"]}}, [scores, labels, count], [loss])
    return True


def _backward_in_rows(c, node):
    start, total = c.views.get(node.args[0]), c.views.get(node.args[6])
    if not _goes_in_rows(c, node.args[1], node.args[2]) or not isinstance(start, View) or not isinstance(total, View):
        return False
    scores, labels = (c.views[each].tensor for each in node.args[1:3])
    made = c.result(node, "loss.backward.y")
    c.views[node] = View(made)
    flops, moved, _ = c.work_of(node)
    c.emit(node, "loss.backward", "opaque", {"label": "nll_loss_backward", "flops": flops, "bytes": moved,
                                             "cut": {"in": ["whole", "part", "part", "whole"], "out": ["part"]}},
           [start.tensor, scores, labels, total.tensor], [made])
    return True


def _goes_in_rows(c, *nodes):
    views = [c.views.get(node) for node in nodes]
    return (bool(c.twice) and c.samples > 1 and all(isinstance(v, View) and v.tensor.batch for v in views)
            and all(c.spread(node) == "batch" for node in nodes))


def _readers(node):
    """The operators that read a value, directly or through views."""
    found = []
    for user in node.users:
        found += _readers(user) if name_of(user) in PLAIN_VIEWS else [user]
    return found


def _is_plain_nll(arguments):
    return arguments[2] is None and arguments[3] == 1 and arguments[4] == -100


KNOWN = {name.removeprefix("map_"): function for name, function in list(globals().items()) if name.startswith("map_")}
