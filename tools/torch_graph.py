"""From the operators that PyTorch traced to a graph as umbench writes and reads it."""

import math
import operator

import torch
import torch_operators as operators
from umbench import load
from torch.utils._pytree import tree_leaves


class Tensor:
    """What owns memory. `batch`: its first extent is the batch."""

    def __init__(self, name, value, use, batch, samples):
        self.name, self.use, self.batch = name, use, batch
        self.type = operators.TYPES.get(value.dtype)
        if self.type is None:
            raise load.BadInput(f"{name} holds {str(value.dtype).removeprefix('torch.')}, for which umbench has no type; "
                                "convert model and inputs, by .float() or .bfloat16()")
        self.shape = _four(list(value.shape), samples if batch else None)
        self.order = "nhwc" if _is_channels_last(value) else "nchw"
        self.fixed = False  # its extents have been relied upon

    def as_json(self):
        out = {"name": self.name, "shape": self.shape}
        return out | {key: value for key, value, usual in (("type", self.type, "f32"), ("order", self.order, "nchw"),
                                                           ("use", self.use, "activation")) if value != usual}


def _four(shape, samples):
    """Four extents. A batch comes first; what is merged with it (heads, windows) goes to the second. Vectors lie along the second."""
    if samples is not None:
        shape = [samples, shape[0] // samples * math.prod(shape[1:2]), *shape[2:]]
    elif len(shape) == 1:
        shape = [1, *shape]
    shape = shape[:3] + [math.prod(shape[3:])]
    return (shape + [1] * 4)[:4] if len(shape) >= 4 else (shape[:-1] + [1] * 4)[:4]


def _is_dense(value):
    """Whether every element of its memory belongs to one element of it, in whatever order."""
    behind = 1
    for stride, size in sorted((stride, size) for stride, size in zip(value.stride(), value.shape) if size != 1):
        if stride != behind:
            return False
        behind *= size
    return True


def _is_channels_last(value):
    return (value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last) and not value.is_contiguous())


class View:
    """How a value lies in a tensor: `plain` is all of it in its order, `turned` its transpose as a matrix."""

    def __init__(self, tensor, plain=True, turned=False):
        self.tensor, self.plain, self.turned = tensor, plain, turned


class Converter:
    """`graph` is traced with `samples`, `doubled` with twice as many: what grows with them is the batch."""

    def __init__(self, graph, doubled, samples):
        self.nodes = list(graph.nodes)
        twice = list(doubled.nodes) if doubled is not None else []
        alike = [str(n.target) for n in self.nodes] == [str(n.target) for n in twice]
        self.twice = dict(zip(self.nodes, twice)) if alike else {}
        self.samples = samples
        self.tensors, self.ops, self.names = [], [], set()
        self.views = {}      # node -> View, a list of them for several results, None for what holds no data
        self.use = "activation"
        self.norms = {}      # weight of a normalisation -> its shift
        self.losses = {}     # node of a log-softmax that ends in the loss -> its tensors
        self.mapped = []     # (operator of umbench, name in PyTorch) of each op
        self.left_out = 0    # bytes that the model writes and an iteration does not read
        self.uncut = ""      # why there is no `doubled`, where there should be one

    # --- the batch ---

    def spread(self, node, index=None):
        """batch: the first extent grows with the batch; whole: nothing does; other."""
        values = [n.meta.get("val") for n in (node, self.twice.get(node)) if n is not None]
        if index is not None:
            values = [value[index] for value in values]
        if len(values) < 2:
            return "other"
        one, two = (list(value.shape) for value in values)
        if one == two:
            return "whole"
        grown = len(one) == len(two) and bool(one) and two == [2 * one[0], *one[1:]] and one[0] % self.samples == 0
        return "batch" if grown else "other"

    # --- tensors and operators ---

    def name(self, wanted):
        name, count = wanted, 1
        while name in self.names:
            count += 1
            name = f"{wanted}.{count}"
        self.names.add(name)
        return name

    def tensor(self, name, value, use, batch):
        made = Tensor(self.name(name), value, use, batch, self.samples)
        self.tensors.append(made)
        return made

    def result(self, node, name, index=None):
        value = node.meta["val"] if index is None else node.meta["val"][index]
        return self.tensor(name, value, self.use, self.spread(node, index) == "batch")

    def emit(self, node, name, kind, attributes, read, written, alias=None, repeatable=True, work=None):
        op = {"name": self.name(name), "kind": kind, **attributes, "in": read, "out": written}
        if not repeatable:
            op["repeatable"] = False
        if alias is not None:
            op["alias"] = {"input": alias[0], "output": alias[1]}
        self.ops.append(op)
        self.mapped.append((kind, operators.name_of(node), work or operators.work_of(node, *self.values_of(node))))

    def values_of(self, node):
        read = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)
                and self.views.get(n) is not None]
        written = [v for v in tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)]
        return read, written

    def plain(self, node):
        view = self.views.get(node) if isinstance(node, torch.fx.Node) else None
        return view.tensor if isinstance(view, View) and view.plain and not view.turned else None

    def turned(self, node):
        view = self.views.get(node) if isinstance(node, torch.fx.Node) else None
        return view.tensor if isinstance(view, View) and view.plain and view.turned else None

    def module_of(self, node):
        """layer1.0.conv1 of an operator that reads layer1.0.conv1.weight."""
        for each in node.all_input_nodes:
            view = self.views.get(each)
            if isinstance(view, View) and view.tensor.use == "parameter":
                return view.tensor.name.rpartition(".")[0] or view.tensor.name
        return node.name

    # --- the walk ---

    def convert(self, uses, loss):
        """`uses`: role and name of each placeholder; `loss`: the node of the loss, None for inference."""
        for node in self.nodes:
            if node.op == "placeholder":
                use, name = uses[node.name]
                self.views[node] = View(self.tensor(name, node.meta["val"], use, self.spread(node) == "batch" and use != "parameter"))
            elif node.op == "get_attr":
                self.views[node] = None
            elif node.op == "call_function":
                self.call(node)
            if node is loss:
                self.use = "activation_gradient"

    def call(self, node):
        name = operators.name_of(node)
        if node.target is operator.getitem:
            found = self.views.get(node.args[0])
            self.views[node] = found[node.args[1]] if isinstance(found, list) else found
        elif name in operators.WITHOUT_DATA:
            self.views[node] = None
        elif name in operators.PLAIN_VIEWS or (name in ("clone", "contiguous") and self.keeps_layout(node)):
            self.views[node] = self.viewed(node.args[0], node, same=True)
        elif node in self.views or (_channels_cut(node) and self.taken_apart(node)):
            pass
        elif name in operators.OTHER_VIEWS:
            self.views[node] = self.viewed(node.args[0], node, same=False)
        else:
            known = getattr(self, "map_" + name.lstrip("_"), None)
            if known is None or not known(node):
                self.opaque(node)

    def keeps_layout(self, node):
        before, after = node.args[0].meta["val"], node.meta["val"]
        return before.stride() == after.stride() and _is_dense(before)

    def viewed(self, source, node, same):
        found = self.views.get(source)
        if not isinstance(found, View):
            return found
        before, after = source.meta["val"], node.meta["val"]
        if isinstance(after, (list, tuple)):
            return [View(found.tensor, False) for _ in after]
        if operators.name_of(node) in ("t", "transpose") and before.dim() == 2 and found.plain:
            return View(found.tensor, True, not found.turned)
        in_order = same or before.numel() == after.numel() and before.stride() == after.stride()
        kept = found.plain and in_order and (not found.turned or before.shape == after.shape)
        return View(found.tensor, kept, found.turned and kept)

    # --- operators that umbench knows; each says whether it could ---

    def alike(self, tensors, kind="f32"):
        wide = {t.order for t in tensors if t.shape[1] > 1 and t.shape[2] * t.shape[3] > 1}
        return all(t is not None for t in tensors) and len(wide) <= 1 and all(t.type == kind for t in tensors)

    def map_convolution(self, node):
        x, w = self.plain(node.args[0]), self.plain(node.args[1])
        b = self.plain(node.args[2]) if node.args[2] is not None else None
        if x is None or w is None or (node.args[2] is not None and b is None):
            return False
        if not _is_plain_window(node.args[0], *node.args[3:6], node.args[6]) or not self.alike([x, w], x.type):
            return False
        if x.shape != list(node.args[0].meta["val"].shape) or (b is not None and b.type != "f32"):
            return False
        name = self.module_of(node)
        y = self.result(node, name + ".y")
        if y.shape != list(node.meta["val"].shape):
            return self.forget(y)
        self.views[node] = View(y)
        self.emit(node, name, "convolution", _window_of(node.args[3], node.args[4], node.args[8]),
                  [x, w] + ([b] if b is not None else []), [y])
        return True

    def forget(self, tensor):
        self.tensors.remove(tensor)
        self.names.discard(tensor.name)
        return False

    def map_convolution_backward(self, node):
        dy, x, w = (self.plain(n) for n in node.args[:3])
        if dy is None or x is None or w is None or not self.alike([dy, x, w]):
            return False
        if not _is_plain_window(node.args[1], *node.args[4:7], node.args[7]):
            return False
        if x.shape != list(node.args[1].meta["val"].shape) or dy.shape != list(node.args[0].meta["val"].shape):
            return False
        name = self.module_of(node)
        attributes = _window_of(node.args[4], node.args[5], node.args[9])
        wants = node.args[10]
        outs = [self.result(node, f"{name}.{what}", i) if wanted else None
                for i, (what, wanted) in enumerate(zip(("dx", "dw", "db"), wants))]
        products = sum(each is not None for each in outs[:2])
        work = operators.work_of(node, *self.values_of(node))
        half = tuple(each // products for each in work[:2]) + (True,)
        summed = (math.prod(dy.shape), math.prod(dy.shape) * operators.SIZES[dy.type], False)
        if outs[1] is not None:
            self.emit(node, name + ".backward_filter", "convolution_backward_filter", attributes, [x, dy], [outs[1]], work=half)
        if outs[2] is not None:
            self.emit(node, name + ".backward_bias", "bias_backward", {}, [dy], [outs[2]], work=summed)
        if outs[0] is not None:
            self.emit(node, name + ".backward_data", "convolution_backward_data", attributes, [w, dy], [outs[0]], work=half)
        self.views[node] = [View(o) if o is not None else None for o in outs]
        return True

    def map_native_batch_norm_legit_functional(self, node):
        x, scale, shift = (self.plain(n) if n is not None else None for n in node.args[:3])
        if x is None or scale is None or shift is None or not node.args[5] or scale.type != "f32":
            return False
        if x.shape != list(node.args[0].meta["val"].shape):
            return False
        name = self.module_of(node)
        y, mean, deviation = (self.result(node, f"{name}.{what}", i) for i, what in enumerate(("y", "mean", "inverse_deviation")))
        self.norms[scale] = shift
        self.views[node] = [View(y), View(mean), View(deviation), None, None]
        self.emit(node, name, "batch_norm", {"epsilon": node.args[7]}, [x, scale, shift], [y, mean, deviation])
        return True

    def map_native_batch_norm_backward(self, node):
        dy, x, scale, mean, deviation = (self.plain(node.args[i]) if node.args[i] is not None else None for i in (0, 1, 2, 5, 6))
        shift = self.norms.get(scale)
        if None in (dy, x, scale, mean, deviation, shift) or not node.args[7] or node.args[9] != [True, True, True]:
            return False
        if not self.alike([dy, x], x.type) or dy.shape != x.shape:
            return False
        name = self.module_of(node)
        outs = [self.result(node, f"{name}.{what}", i) for i, what in enumerate(("dx", "dscale", "dshift"))]
        self.views[node] = [View(o) for o in outs]
        self.emit(node, name + ".backward", "batch_norm_backward", {}, [x, scale, shift, mean, deviation, dy], outs, (5, 0))
        return True

    def pointwise(self, node, kind, read, alias, attributes=None):
        if None in read or any(t.shape != read[0].shape or t.order != read[0].order or t.type != read[0].type for t in read):
            return False
        y = self.result(node, node.name + ".y")
        if y.shape != read[0].shape or y.type != read[0].type or y.order != read[0].order or y.type not in ("f32", "bf16"):
            return self.forget(y)
        self.views[node] = View(y)
        self.emit(node, node.name, kind, attributes or {}, read, [y], alias)
        return True

    def map_relu(self, node):
        return self.pointwise(node, "relu", [self.plain(node.args[0])], (0, 0))

    def map_threshold_backward(self, node):
        return node.args[2] == 0 and self.pointwise(node, "relu_backward", [self.plain(node.args[1]), self.plain(node.args[0])], (1, 0))

    def map_hardtanh(self, node):
        return self.is_relu6(node.args[1:3]) and self.pointwise(node, "relu", [self.plain(node.args[0])], (0, 0), {"capped": True})

    def map_hardtanh_backward(self, node):
        """PyTorch keeps what the ReLU reads: it lies between 0 and 6 where what it gives does."""
        read = [self.plain(node.args[1]), self.plain(node.args[0])]
        return self.is_relu6(node.args[2:4]) and self.pointwise(node, "relu_backward", read, (1, 0), {"capped": True})

    def is_relu6(self, limits):
        return tuple(limits) == (0, 6)

    def map_avg_pool2d(self, node):
        return self.averaged(node, "average_pool", node.args[1:], ".y")

    def map_avg_pool2d_backward(self, node):
        return self.averaged(node, "average_pool_backward", node.args[2:], ".dx")

    def averaged(self, node, kind, how, suffix):
        given, attributes = self.plain(node.args[0]), _averaged(how)
        if attributes is None or not _is_plane(node.args[0], given):
            return False
        made = self.result(node, node.name + suffix)
        self.views[node] = View(made)
        self.emit(node, node.name, kind, attributes, [given], [made])
        return True

    def map_cat(self, node):
        nodes, along = node.args[0], node.args[1] if len(node.args) > 1 else 0
        parts = [self.plain(n) for n in nodes]
        if len(parts) < 2 or along not in (1, -3) or not all(_is_plane(n, t) for n, t in zip(nodes, parts)):
            return False
        if not self.alike(parts, parts[0].type):
            return False
        y = self.result(node, node.name + ".y")
        if y.order != parts[0].order and y.shape[2] * y.shape[3] > 1:
            return self.forget(y)
        self.views[node] = View(y)
        self.emit(node, node.name, "concat", {}, parts, [y])
        return True

    def taken_apart(self, node):
        """A gradient whose channels are cut into slices, as those of what was joined are: tensors of their own."""
        source = node.args[0]
        dy, cuts = self.plain(source), [(_channels_cut(user), user) for user in source.users if _channels_cut(user)]
        pieces = sorted({cut for cut, _ in cuts})
        tiles = len(pieces) > 1 and [first for first, _ in pieces] == [0] + [end for _, end in pieces[:-1]]
        if self.use != "activation_gradient" or not _is_plane(source, dy) or not tiles or pieces[-1][1] != dy.shape[1]:
            return False
        made = {}
        for cut, user in cuts:
            if cut not in made:
                made[cut] = self.result(user, f"{user.name}.dx")
                made[cut].order = dy.order
            self.views[user] = View(made[cut])
        size = 2 * math.prod(dy.shape) * operators.SIZES[dy.type]
        self.emit(node, source.name + ".backward", "concat_backward", {}, [dy], [made[cut] for cut in pieces], work=(0, size, False))
        return True

    def map_add(self, node):
        both = [self.plain(n) for n in node.args[:2]]
        return not node.kwargs and both[0] is not both[1] and self.pointwise(node, "add", both, (0, 0))

    def map_max_pool2d_with_indices(self, node):
        x, (h, w) = self.plain(node.args[0]), _pair(node.args[1])
        stride, pad, dilation = (_pair(node.args[i]) if len(node.args) > i and node.args[i] != [] else usual
                                 for i, usual in ((2, (h, w)), (3, (0, 0)), (4, (1, 1))))
        readers = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
        backward = all(operators.name_of(u) == "max_pool2d_with_indices_backward" for r in readers for u in r.users)
        if x is None or h != w or stride[0] != stride[1] or pad[0] != pad[1] or dilation != (1, 1) or h > 256 or not backward:
            return False
        if x.shape != list(node.args[0].meta["val"].shape):
            return False
        y, index = self.result(node, node.name + ".y", 0), self.result(node, node.name + ".index", 1)
        index.type = "u8" if h <= 16 else "u16"
        attributes = {"window": h, "stride": stride[0], "pad": pad[0]}
        index.pool = attributes
        self.views[node] = [View(y), View(index)]
        self.emit(node, node.name, "max_pool", attributes, [x], [y, index])
        return True

    def map_max_pool2d_with_indices_backward(self, node):
        dy, index = self.plain(node.args[0]), self.plain(node.args[7])
        attributes = getattr(index, "pool", None)
        if dy is None or attributes is None or dy.shape != index.shape:
            return False
        dx = self.result(node, node.name + ".dx")
        self.views[node] = View(dx)
        self.emit(node, node.name, "max_pool_backward", attributes, [dy, index], [dx])
        return True

    def map_addmm(self, node):
        b, x, w = self.plain(node.args[0]), self.plain(node.args[1]), self.turned(node.args[2])
        return not node.kwargs and b is not None and self.linear(node, x, w, [b])

    def map_mm(self, node):
        left, right = node.args
        if self.turned(right) is not None and self.plain(left) is not None:
            return self.linear(node, self.plain(left), self.turned(right), [])
        if self.turned(left) is not None and self.plain(right) is not None:
            return self.linear_filter(node, self.plain(right), self.turned(left))
        return self.linear_data(node, self.plain(right), self.plain(left))

    def linear(self, node, x, w, bias):
        if x is None or w is None or w.use != "parameter" or not self.alike([x, w], x.type) or any(b.type != "f32" for b in bias):
            return False
        rows, columns = node.args[-2].meta["val"].shape
        wanted = [w.shape[0], *x.shape[1:]]
        if x.shape[0] != rows or math.prod(x.shape[1:]) != columns or (w.fixed and w.shape != wanted):
            return False
        name = self.module_of(node)
        y = self.result(node, name + ".y")
        if y.shape != [rows, w.shape[0], 1, 1]:
            return self.forget(y)
        w.shape, w.fixed = wanted, True
        self.views[node] = View(y)
        self.emit(node, name, "linear", {}, [x, w, *bias], [y])
        return True

    def linear_data(self, node, w, dy):
        if w is None or dy is None or not w.fixed or w.use != "parameter" or not self.alike([w, dy], w.type):
            return False
        if dy.shape != [dy.shape[0], w.shape[0], 1, 1]:
            return False
        name = self.module_of(node)
        dx = self.result(node, name + ".dx")
        dx.shape = [dy.shape[0], *w.shape[1:]]
        self.views[node] = View(dx)
        self.emit(node, name + ".backward_data", "linear_backward_data", {}, [w, dy], [dx])
        return True

    def linear_filter(self, node, x, dy):
        rows = node.args[1].meta["val"].shape[0]
        if not self.alike([x, dy]) or x.shape[0] != rows or dy.shape != [rows, dy.shape[1], 1, 1]:
            return False
        dw = self.result(node, node.name + ".dw")
        dw.shape, dw.fixed = [dy.shape[1], *x.shape[1:]], True
        self.views[node] = View(dw)
        self.emit(node, node.name, "linear_backward_filter", {}, [x, dy], [dw])
        return True

    def map_sum(self, node):
        dy = self.plain(node.args[0])
        if dy is None or dy.type != "f32" or node.args[1:2] != ([0],) or dy.shape[2:] != [1, 1] or node.args[0].meta["val"].dim() != 2:
            return False
        db = self.result(node, node.name + ".db")
        if db.shape != [1, dy.shape[1], 1, 1]:
            return self.forget(db)
        self.views[node] = View(db)
        self.emit(node, node.name, "bias_backward", {}, [dy], [db])
        return True

    def map_mean(self, node):
        x, value = self.plain(node.args[0]), node.args[0].meta["val"]
        if x is None or len(node.args) < 2 or value.dim() != 4 or sorted(d % 4 for d in node.args[1]) != [2, 3] or x.shape != list(value.shape):
            return False
        y = self.result(node, node.name + ".y")
        y.shape = [*x.shape[:2], 1, 1]
        self.views[node] = View(y)
        self.emit(node, node.name, "global_average_pool", {}, [x], [y])
        return True

    def map_div(self, node):
        """The mean's gradient is spread over the plane, then divided by its size."""
        spread = node.args[0]
        if not isinstance(spread, torch.fx.Node) or operators.name_of(spread) != "expand" or not isinstance(node.args[1], (int, float)):
            return False
        dy, value = self.plain(spread.args[0]), node.meta["val"]
        if dy is None or value.dim() != 4 or dy.shape != [*value.shape[:2], 1, 1] or node.args[1] != math.prod(value.shape[2:]):
            return False
        dx = self.result(node, node.name + ".dx")
        self.views[node] = View(dx)
        self.emit(node, node.name, "global_average_pool_backward", {}, [dy], [dx])
        return True

    def map_to_copy(self, node):
        x = self.plain(node.args[0])
        if x is None or x.type not in ("f32", "bf16") or not node.meta["val"].is_floating_point():
            return False
        y = self.result(node, node.name + ".y")
        if y.type == x.type or y.shape != x.shape or y.order != x.order:
            return self.forget(y)
        self.views[node] = View(y)
        self.emit(node, node.name, "cast", {}, [x], [y])
        return True

    # --- the loss: four operators of PyTorch are two of umbench's ---

    def map_log_softmax(self, node):
        logits = self.plain(node.args[0])
        users = _readers(node)
        ends = {"nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data"}
        if logits is None or node.args[1] != 1 or logits.shape[2:] != [1, 1] or {operators.name_of(u) for u in users} - ends:
            return False
        heads = [u for u in users if operators.name_of(u) == "nll_loss_forward"]
        if len(heads) != 1 or not _is_plain_nll(heads[0].args) or logits.shape != [*node.meta["val"].shape, 1, 1]:
            return False
        for user in users:
            if operators.name_of(user) == "nll_loss_backward" and "ones" not in operators.name_of(user.args[0]):
                return False
        probabilities = self.result(node, "probabilities")
        self.losses[probabilities] = logits
        self.views[node] = View(probabilities)
        return True

    def map_nll_loss_forward(self, node):
        probabilities, labels = self.plain(node.args[0]), self.plain(node.args[1])
        if probabilities not in self.losses or labels is None:
            return False
        loss = self.result(node, "loss", 0)
        self.views[node] = [View(loss), None]
        self.emit(node, "loss", "softmax_cross_entropy", {}, [self.losses[probabilities], labels], [loss, probabilities])
        return True

    def map_nll_loss_backward(self, node):
        probabilities = self.plain(node.args[1])
        if probabilities not in self.losses:
            return False
        self.views[node] = None
        return True

    def map_log_softmax_backward_data(self, node):
        probabilities = self.plain(node.args[1])
        if probabilities not in self.losses:
            return False
        labels = self.plain(node.args[0].args[2])
        dlogits = self.result(node, "dlogits")
        self.views[node] = View(dlogits)
        self.emit(node, "loss.backward", "softmax_cross_entropy_backward", {}, [probabilities, labels], [dlogits])
        return True

    # --- all others ---

    def opaque(self, node):
        value = node.meta["val"]
        several = isinstance(value, (list, tuple))
        values = list(value) if several else [value]
        used = {u.args[1] for u in node.users if u.target is operator.getitem} if several else {0}
        written = [(i, v) for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.numel() > 0 and (i in used or not several)]
        if not written:
            self.views[node] = [None] * len(values) if several else None
            return
        read = self.operands(node)
        name = self.module_of(node)
        if self.use == "activation_gradient" and name != node.name:
            name += ".backward"
        made = [self.result(node, f"{name}.{i}" if several else f"{name}.y", i if several else None) for i, _ in written]
        views = dict(zip([i for i, _ in written], map(View, made)))
        self.views[node] = [views.get(i) for i in range(len(values))] if several else views[0]
        flops, moved, products = operators.work_of(node, *self.values_of(node))
        attributes = {"label": operators.name_of(node), "flops": flops, "bytes": moved}
        if products:
            attributes["products"] = True
        cut = self.cut_of(node, read, [(i if several else None) for i, _ in written])
        if cut is not None:
            attributes["cut"] = cut
        self.emit(node, name, "opaque", attributes, read, made, self.alias_of(node, read, made), not operators.is_random(node))
        self.ops[-1]["node"] = node.name

    def operands(self, node):
        found = []
        for each in node.all_input_nodes:
            for view in tree_leaves(self.views.get(each)):
                if isinstance(view, View) and view.tensor not in found:
                    found.append(view.tensor)
        return found

    def alias_of(self, node, read, made):
        """An operator that goes element by element may work in the place of an operand that it reads so."""
        if operators.name_of(node) not in operators.ELEMENTWISE | {"slice_scatter", "select_scatter", "copy"} or len(made) != 1:
            return None
        for i, t in enumerate(read):
            plain = any(self.plain(n) is t and n.meta["val"].shape == node.meta["val"].shape for n in node.all_input_nodes)
            if plain and t.type == made[0].type and t.order == made[0].order and math.prod(t.shape) == math.prod(made[0].shape):
                return i, 0
        return None

    def cut_of(self, node, read, indices):
        """How each operand is cut where the operator goes over the batch in parts; None: it cannot be."""
        if not self.twice or self.samples < 2 or not self.is_by_sample(node):
            return None
        ways = {}
        for each in node.all_input_nodes:
            view = self.views.get(each)
            if not isinstance(view, View):
                continue
            spread = "batch" if self.is_turned_batch(node, each, view) else self.spread(each)
            way = "part" if view.tensor.batch else "whole"
            if spread == "other" or (view.tensor.batch and spread != "batch") or ways.setdefault(view.tensor, way) != way:
                return None
        out = [{"batch": "part", "whole": "sum"}.get(self.spread(node, i)) for i in indices]
        inputs = [ways[t] for t in read]
        if None in out or "part" not in inputs:
            return None
        return {"in": inputs, "out": out}

    def is_turned_batch(self, node, each, view):
        """The left side of a filter's gradient, dy^T x: summed over the batch."""
        return (operators.name_of(node) == "mm" and each is node.args[0] and view.turned and view.tensor.batch
                and self.spread(node.args[1]) == "batch" and self.spread(node) == "whole")

    def is_by_sample(self, node):
        name = operators.name_of(node)
        if name == "sum":
            return len(node.args) > 1
        if name in operators.BY_SAMPLE_ALONG:
            at = operators.BY_SAMPLE_ALONG[name]
            along = node.args[at] if len(node.args) > at else 0
            rank = max(len(v.shape) for v in tree_leaves(node.meta["val"]) if isinstance(v, torch.Tensor)) or 1
            return all(isinstance(d, int) and d % rank != 0 for d in (along if isinstance(along, (list, tuple)) else [along]))
        return name in operators.BY_SAMPLE

    def update(self, node, target, value):
        """`target` is written in place with what `value` holds."""
        size = sum(math.prod(t.shape) * operators.SIZES[t.type] for t in (value, target))
        op = {"name": self.name(target.name + ".update"), "kind": "opaque", "label": "copy", "flops": 0, "bytes": size,
              "in": [target, value], "out": [target], "repeatable": False}
        self.ops.append(op)
        self.mapped.append(("opaque", "copy", (0, size, False)))

    # --- what is needed ---

    def keep(self, wanted):
        """Drops operators of whose results nothing is wanted, and tensors that none is left to touch."""
        needed, kept = set(wanted), []
        for op, mapped in zip(reversed(self.ops), reversed(self.mapped)):
            if any(t in needed for t in op["out"]):
                needed.update(op["in"])
                kept.append((op, mapped))
        kept.reverse()
        self.ops, self.mapped = [op for op, _ in kept], [mapped for _, mapped in kept]
        touched = {t for op in self.ops for t in op["in"] + op["out"]}
        self.tensors = [t for t in self.tensors if t in touched]


def _pair(value):
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _is_plain_window(x, stride, pad, dilation, transposed):
    """A convolution over planes as umbench has it."""
    return x.meta["val"].dim() == 4 and len(stride) == len(pad) == 2 and list(dilation) == [1, 1] and not transposed


def _window_of(stride, pad, groups):
    return {"stride": list(stride), "pad": list(pad)} | ({"groups": groups} if groups > 1 else {})


def _averaged(arguments):
    """Attributes of an average pool from what follows its operands; None for what umbench has not."""
    window, stride, pad, _, counts, divisor = list(arguments) + [[], (0, 0), False, True, None][len(arguments) - 1:]
    if divisor is not None:
        return None
    window = _pair(window)
    return {"window": list(window), "stride": list(_pair(stride) if stride not in ([], None) else window), "pad": list(_pair(pad)),
            "count_include_pad": bool(counts)}


def _is_plane(node, tensor):
    """Four dimensions, kept as they are."""
    return tensor is not None and tensor.shape == list(node.meta["val"].shape) and tensor.type in ("f32", "bf16")


def _channels_cut(node):
    """(first, behind the last) channel of a slice; None for any other view."""
    if operators.name_of(node) != "slice" or node.meta["val"].dim() != 4 or (len(node.args) > 1 and node.args[1] != 1):
        return None
    first, end, step = (node.args[i] if len(node.args) > i else usual for i, usual in ((2, 0), (3, None), (4, 1)))
    channels = node.args[0].meta["val"].shape[1]
    first, end = first or 0, channels if end is None else min(end, channels)
    return (first, end) if len(node.args) > 1 and step == 1 and 0 <= first < end else None


def _readers(node):
    """Those that read a value, through views."""
    found = []
    for user in node.users:
        found += _readers(user) if operators.name_of(user) in operators.PLAIN_VIEWS else [user]
    return found


def _is_plain_nll(arguments):
    return arguments[2] is None and arguments[3] == 1 and arguments[4] == -100
