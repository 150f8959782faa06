"""Computes a loss over a large vocabulary in shares of the rows, so that not all logits are in memory at once.

In Dynamo's graph a linear layer, views and cross_entropy follow one another. They become one function, which computes the gradients of a share
of the rows right after the share's loss, since the gradient of the loss is only a factor of them."""

import contextlib

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import register_flop_formula

FLATTENS = {"flatten", "view", "reshape", "contiguous", "float"}
LINEAR = {F.linear, torch._C._nn.linear}
SHARE_COUNTS = (1, 2, 4, 8, 16)  # numbers of shares of the rows
LOGITS_SHARE_OF_BUDGET = 0.2      # share of the budget that the logits of one share and their gradients may take
LOGITS_SHARE_IF_FROZEN = 0.08     # the same if the weight is frozen: then more shares cost no sums of gradients


# An operator that copies rows after the gradients of the previous share are computed. Without it Inductor would compute all logits first.
library = torch.library.Library("umbench", "FRAGMENT")
library.define("after_gradients(Tensor rows, Tensor weight_gradient, Tensor rows_gradient) -> Tensor")


def after_gradients(rows, weight_gradient, rows_gradient):
    """Returns a copy of `rows`, made after the two gradients were computed."""
    return rows.clone()


@torch.library.register_fake("umbench::after_gradients", lib=library)
def _(rows, weight_gradient, rows_gradient):
    return torch.empty_like(rows)


# Operators for the weight's gradient: products that are added to the sum so far in float32. add_product_ overwrites that sum.
library.define("add_product(Tensor? total, Tensor left, Tensor right) -> Tensor")
library.define("add_product_(Tensor(a!) total, Tensor left, Tensor right) -> ()")


def add_product(total, left, right, out=None):
    """left^T right, with `total` added to it, in float32."""
    left = left.t()
    if left.dtype == torch.float32:
        return left @ right if total is None else torch.addmm(total, left, right, out=out)
    if left.is_cuda:
        if total is None:
            return torch.ops.aten.mm.dtype(left, right, torch.float32)
        if out is not None:
            return torch.ops.aten.addmm.dtype_out(total, left, right, torch.float32, out=out)
        return torch.ops.aten.addmm.dtype(total, left, right, torch.float32)
    product = (left @ right).float()
    return product if total is None else torch.add(total, product, out=out)


def add_product_(total, left, right):
    add_product(total, left, right, out=total)


for function in (after_gradients, add_product, add_product_):
    library.impl(function.__name__, function, "CompositeExplicitAutograd")


@torch.library.register_fake("umbench::add_product", lib=library)
def _(total, left, right):
    return left.new_empty((left.shape[1], right.shape[1]), dtype=torch.float32)


@torch.library.register_fake("umbench::add_product_", lib=library)
def _(total, left, right):
    return None


@register_flop_formula(torch.ops.umbench.add_product)
def _(total, left, right, *_, **__):
    return 2 * left[0] * left[1] * right[1]


def is_product_added_to_sum(node):
    """Whether a node adds a product to its first input, a sum of earlier products."""
    return node.target is torch.ops.umbench.add_product.default and node.args[0] is not None


def overwrite_sums(module):
    """Makes products of a forward or backward graph overwrite the sum to which they are added, if nothing reads it later. The module is
    not recompiled."""
    index_of_node = {node: i for i, node in enumerate(module.graph.nodes)}
    for node in filter(is_product_added_to_sum, list(module.graph.nodes)):
        total, left, right = node.args
        if total.op != "call_function" or any(index_of_node[user] > index_of_node[node] for user in total.users):
            continue
        with module.graph.inserting_before(node):
            overwriting_node = module.graph.call_function(torch.ops.umbench.add_product_.default, (total, left, right))
        overwriting_node.meta["val"], index_of_node[overwriting_node] = None, index_of_node[node]
        node.replace_all_uses_with(total)
        module.graph.erase_node(node)


class LinearLossInShares(torch.autograd.Function):
    """A linear layer and its cross-entropy, computed in shares of the rows."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, labels, ignored_label, share_count, weight_is_trained):
        device_type = hidden.device.type
        product_type = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else hidden.dtype
        with torch.autocast(device_type, enabled=False) if torch.is_autocast_enabled(device_type) else contextlib.nullcontext():
            hidden_rows, typed_weight = hidden.reshape(-1, hidden.shape[-1]).to(product_type), weight.to(product_type)
            labels = labels.reshape(-1)
            total_loss = torch.zeros((), device=hidden.device)
            rows_gradients, weight_gradient, bias_gradient = [], None, None
            for share_rows, share_labels in zip(hidden_rows.chunk(share_count), labels.chunk(share_count)):
                if rows_gradients:
                    share_rows = torch.ops.umbench.after_gradients(share_rows,
                                                                   rows_gradients[-1] if weight_gradient is None else weight_gradient,
                                                                   rows_gradients[-1])
                logits = F.linear(share_rows, typed_weight, None if bias is None else bias.to(product_type)).float()
                loss, logits_gradient = loss_and_gradient(logits, share_labels, ignored_label)
                total_loss = total_loss + loss
                logits_gradient = logits_gradient.to(product_type)
                rows_gradients.append(logits_gradient @ typed_weight)
                if weight_is_trained:
                    weight_gradient = torch.ops.umbench.add_product(weight_gradient, logits_gradient, share_rows)
                if bias is not None:
                    share_bias_gradient = logits_gradient.float().sum(0)
                    bias_gradient = share_bias_gradient if bias_gradient is None else bias_gradient + share_bias_gradient
            # Inductor moves the kernel that divides by the count, and all shares, to where the count is made: here, after the waits for copies.
            label_count = (labels != ignored_label).sum().float()
            ctx.types = hidden.dtype, weight.dtype, None if bias is None else bias.dtype
            ctx.save_for_backward(torch.cat(rows_gradients).reshape(hidden.shape), weight_gradient, bias_gradient, label_count)
            return total_loss / label_count

    @staticmethod
    def backward(ctx, gradient):
        hidden_gradient, weight_gradient, bias_gradient, label_count = ctx.saved_tensors
        factor = gradient / label_count
        hidden_type, weight_type, bias_type = ctx.types
        return ((hidden_gradient * factor).to(hidden_type), None if weight_gradient is None else (weight_gradient * factor).to(weight_type),
                None if bias_type is None else (bias_gradient * factor).to(bias_type), None, None, None, None)


def loss_and_gradient(logits, labels, ignored_label):
    """(the sum of the rows' losses, its gradient with respect to the logits)."""
    normaliser = torch.logsumexp(logits, 1, keepdim=True)
    is_counted = (labels != ignored_label)[:, None]
    counted_labels = torch.where(is_counted, labels[:, None], 0)
    loss = torch.where(is_counted, normaliser - logits.gather(1, counted_labels), 0.0).sum()
    is_label = torch.arange(logits.shape[1], device=logits.device)[None] == counted_labels
    gradient = torch.where(is_counted, (logits - normaliser).exp() - is_label.to(logits.dtype), 0.0)
    return loss, gradient


def linear_loss_in_shares(hidden, weight, bias, labels, ignored_label, share_count, weight_is_trained=True):
    return LinearLossInShares.apply(hidden, weight, bias, labels, ignored_label, share_count, weight_is_trained)


def find_linear_losses(dynamo_graph):
    """[(linear node, cross_entropy node)] that can be computed in shares. `dynamo_graph`: of Dynamo or of LossesInShares."""
    return [(linear, node) for node in dynamo_graph.nodes if node.op == "call_function" and node.target is F.cross_entropy for linear in linear_layers_before(node)]


def linear_layers_before(loss_node):
    """[the linear layer before a cross-entropy]; empty if the two cannot be computed in shares."""
    source = arguments_of_loss(loss_node)["input"] if is_plain_mean(loss_node) else None
    while isinstance(source, torch.fx.Node) and source.op == "call_method" and source.target in FLATTENS and len(source.users) == 1:
        source = source.args[0]
    is_linear = isinstance(source, torch.fx.Node) and source.op == "call_function" and source.target in LINEAR and len(source.users) == 1
    return [source] if is_linear else []


def share_counts_to_try(graph, budget_bytes):
    """[numbers of shares] to try in order. The first for which there is a plan is used."""
    losses = find_linear_losses(graph)
    most_bytes = max([bytes_with_gradients(traced_value(linear)) for linear, _ in losses], default=0)
    if most_bytes <= 0.01 * budget_bytes:
        return [1]
    allowed_bytes = budget_bytes * (LOGITS_SHARE_OF_BUDGET if any(is_trained(linear) for linear, _ in losses) else LOGITS_SHARE_IF_FROZEN)
    return [share_count for share_count in SHARE_COUNTS if most_bytes / share_count <= allowed_bytes or share_count == SHARE_COUNTS[-1]]


def bytes_with_gradients(logits):
    """Bytes of logits and their gradients, in the type of products."""
    is_half = torch.is_autocast_enabled(logits.device.type) or logits.element_size() == 2
    return logits.numel() * 2 * (2 if is_half else 4)


def is_trained(linear_node):
    """Whether the weight of a linear layer requires a gradient."""
    return traced_value(linear_node.args[1]).requires_grad


def arguments_of_loss(loss_node):
    """The arguments of a cross-entropy by name."""
    return dict(zip(("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"), loss_node.args)) | loss_node.kwargs


def traced_value(node_or_value):
    """The traced value of a node; any other argument itself."""
    return node_or_value.meta.get("example_value") if isinstance(node_or_value, torch.fx.Node) else node_or_value


def is_plain_mean(loss_node):
    """Whether a cross-entropy is the mean over rows with class numbers as labels, and nothing else."""
    options = arguments_of_loss(loss_node)
    logits, label = traced_value(options.get("input")), traced_value(options.get("target"))
    return (isinstance(logits, torch.Tensor) and isinstance(label, torch.Tensor) and not label.is_floating_point()
            and options.get("weight") is None and options.get("reduction", "mean") == "mean" and not options.get("label_smoothing")
            and options.get("reduce") is None and options.get("size_average") is None and (logits.dim(), label.dim()) == (2, 1))


def share_arguments(linear_node, loss_node, share_count):
    """The arguments of the linear_loss_in_shares() that replaces a linear layer and its loss."""
    hidden, weight, bias = [*linear_node.args, None][:3]
    options = arguments_of_loss(loss_node)
    return hidden, weight, bias, options["target"], options.get("ignore_index", -100), share_count, is_trained(linear_node)


def cut_losses_into_shares(dynamo_module, share_count):
    """A copy of Dynamo's graph that computes each loss in `share_count` parts."""
    graph = torch.fx.Graph()
    copy_of_node = {}
    graph.output(graph.graph_copy(dynamo_module.graph, copy_of_node))
    if share_count > 1:
        for linear, loss in find_linear_losses(dynamo_module.graph):
            node, dead_node = copy_of_node[loss], arguments_of_loss(loss)["input"]
            with graph.inserting_before(node):
                share_loss_node = graph.call_function(linear_loss_in_shares,
                                                      torch.fx.node.map_arg(share_arguments(linear, loss, share_count), copy_of_node.get))
            share_loss_node.meta = dict(node.meta)
            node.replace_all_uses_with(share_loss_node)
            graph.erase_node(node)
            while dead_node is not linear:
                graph.erase_node(copy_of_node[dead_node])
                dead_node = dead_node.args[0]
            graph.erase_node(copy_of_node[linear])
    return torch.fx.GraphModule(dynamo_module, graph)


class LossesInShares(TorchFunctionMode):
    """A mode that computes losses in `share_count` shares while a model is traced. `graph` has the linear layers, views of their results, and
    losses, in the form of Dynamo's graph."""

    def __init__(self, share_count):
        super().__init__()
        self.share_count, self.graph = share_count, torch.fx.Graph()
        self.nodes = {}  # nodes by the id of their result

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name, node = kwargs or {}, getattr(function, "__name__", ""), None
        node_args, node_kwargs = self._replace_results_by_nodes((args, kwargs))
        if function in LINEAR or function is F.cross_entropy:
            node = self.graph.call_function(function, node_args, node_kwargs)
        elif name in FLATTENS and node_args and isinstance(node_args[0], torch.fx.Node):
            node = self.graph.call_method(name, node_args, node_kwargs)
        if function is F.cross_entropy and self.share_count > 1:
            for linear in linear_layers_before(node):
                return linear_loss_in_shares(*torch.fx.node.map_arg(share_arguments(linear, node, self.share_count), traced_value))
        result = function(*args, **kwargs)
        if node is not None:
            node.meta["example_value"], self.nodes[id(result)] = result, node
        return result

    def _replace_results_by_nodes(self, arguments):
        return torch.fx.node.map_aggregate(arguments, lambda each: self.nodes.get(id(each), each))

    def keep_returned_logits_whole(self, results):
        """Keeps the logits among the model's `results` whole: the caller reads them, so they are not computed in shares."""
        self.graph.output(self._replace_results_by_nodes(results))
