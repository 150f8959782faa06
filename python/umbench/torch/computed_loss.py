"""The cross entropy of eager PyTorch: four of its operators are two of umbench's."""

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
        return False
    loss = c.result(node, "loss", 0)
    c.views[node] = [View(loss), None]
    c.emit(node, "loss", "softmax_cross_entropy", {}, [c.losses[probabilities], labels], [loss, probabilities])
    return True


def map_nll_loss_backward(c, node):
    probabilities = c.plain(node.args[1])
    if probabilities not in c.losses:
        return False
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


def _readers(node):
    """Those that read a value, through views."""
    found = []
    for user in node.users:
        found += _readers(user) if name_of(user) in PLAIN_VIEWS else [user]
    return found


def _is_plain_nll(arguments):
    return arguments[2] is None and arguments[3] == 1 and arguments[4] == -100


KNOWN = {name.removeprefix("map_"): function for name, function in list(globals().items()) if name.startswith("map_")}
