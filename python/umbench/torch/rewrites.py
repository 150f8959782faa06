"""Changes of graphs that keep their values and reduce memory."""

import torch

from .operators import COMPUTED, VIEW, kind_of, name_of
from .values import backward_of, numel, stored_bytes, value_of

aten = torch.ops.aten
PART_OF_BUDGET = 1 / 25  # that image and result of a convolution take at least where its gradients are parted: each operator has to be launched


def part_convolutions(joint, budget):
    """The gradients of large convolutions become operators of their own: that by the filters comes first, and the image that it reads may
    go before that by the image is there, a convolution in the other direction. Of images that are put together the parts are read one
    by one, and computed again one by one, if they are; gradients of parts are parts of their own. budget: bytes."""
    for node in joint.graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient, image, filters, *_, groups, mask = node.args
        images = (value_of(image), value_of(gradient))
        read = {item.args[1] for item in node.users}
        if not (mask[0] and mask[1] and read >= {0, 1}) or groups > 1 or min(map(stored_bytes, images)) < budget * PART_OF_BUDGET:
            continue
        whole = Convolution(joint.graph, node)
        with joint.graph.inserting_before(node):
            whole.put_filters(node)
            whole.put_image(node)
        for item in [*node.users]:
            joint.graph.erase_node(item)
        joint.graph.erase_node(node)


class Convolution:
    """Rewrites the gradients of a convolution in a graph."""

    def __init__(self, graph, node):
        self.graph, self.meta = graph, node.meta
        self.gradient, self.image, self.filters, self.bias, self.stride, self.padding, self.dilation, self.transposed, self.rest, self.groups, self.mask = node.args
        self.channels = 0 if self.transposed else 1  # the dimension of the filters that belongs to the image's channels
        self.of_image, self.of_filters, self.of_bias = node.meta["val"]
        self.items = {item.args[1]: item for item in node.users}

    def call(self, target, args, value):
        made = self.graph.call_function(target, args)
        made.meta = {**self.meta, "val": value}
        return made

    def filters_of(self, begin, end):
        if end - begin == self.of_image.shape[1]:
            return self.filters
        value = value_of(self.filters).narrow(self.channels, begin, end - begin)
        return self.call(aten.slice.Tensor, (self.filters, self.channels, begin, end), value)

    def put_filters(self, node):
        """Replaces the results for filters and bias."""
        made, begin = [], 0
        for image in parts_of(self.image):
            end = begin + value_of(image).shape[1]
            mask = [False, True, self.mask[2] and not made]
            values = (None, dense(self.of_filters.narrow(self.channels, begin, end - begin)), self.of_bias if mask[2] else None)
            others = self.stride, self.padding, self.dilation, self.transposed, self.rest, self.groups
            both = self.call(node.target, (self.gradient, image, self.filters_of(begin, end), self.bias, *others, mask), values)
            if mask[2] and 2 in self.items:
                self.replace(2, self.call(self.items[2].target, (both, 2), self.of_bias))
            made.append(self.call(self.items[1].target, (both, 1), values[1]))
            begin = end
        self.replace(1, made[0] if len(made) == 1 else self.call(aten.cat.default, (made, self.channels), self.of_filters))

    def put_image(self, node):
        """Replaces the result for the image, or its parts if nothing else reads it."""
        users = list(self.items[0].users)
        if not all(user.target is aten.slice.Tensor and user.args[1] == 1 and len(user.args) == 4 for user in users):
            with self.graph.inserting_before(self.moment_for(self.items[0])):
                self.replace(0, self.image_of(0, self.of_image.shape[1], self.of_image))
            return
        for user in users:
            begin, end = user.args[2], min(user.args[3], self.of_image.shape[1])
            with self.graph.inserting_before(self.moment_for(user)):
                user.replace_all_uses_with(self.image_of(begin, end, dense(value_of(user))))
            self.graph.erase_node(user)

    def moment_for(self, image):
        """The node before which the gradient by an image, or by a part of it, is made: its first reader, unless the gradient that it is
        made of is larger and nothing else reads it until then."""
        if not image.users:
            return image
        first = min(image.users)
        is_read_until_then = any(image < reader < first for reader in self.gradient.users)
        return first if is_read_until_then or numel(image) >= numel(self.gradient) else image

    def image_of(self, begin, end, value):
        rest = [0] * len(self.stride)
        if not self.transposed:
            rest = rest_of_image(value, value_of(self.gradient), value_of(self.filters), self.stride, self.padding, self.dilation)
        options = self.stride, self.padding, self.dilation, not self.transposed, rest, self.groups
        return self.call(aten.convolution.default, (self.gradient, self.filters_of(begin, end), None, *options), value)

    def replace(self, item, made):
        self.items[item].replace_all_uses_with(made)


def rest_of_image(image, gradient, filters, stride, padding, dilation):
    """The output_padding: by how much an image is larger than the result of its gradient's convolution."""
    sizes = zip(image.shape[2:], gradient.shape[2:], filters.shape[2:], stride, padding, dilation)
    return [large - ((small - 1) * s - 2 * p + d * (f - 1) + 1) for large, small, f, s, p, d in sizes]


def parts_of(image):
    """Of an image put together along its channels: its parts, what goes element by element computed for itself. Else the image."""
    if name_of(image) != "cat" or image.args[1:] != (1,):
        return [image]
    return [computed_anew(part) for part in image.args[0]]


def computed_anew(node):
    """A copy of what goes element by element from other results to a node. It is not in memory from one reader to the other."""
    copies = {}

    def copy(n):
        if n.op != "call_function" or kind_of(n) not in (COMPUTED, VIEW) or numel(n) < numel(node):
            return n
        if n not in copies:
            sources = {source: copy(source) for source in n.all_input_nodes}
            with n.graph.inserting_after(node if not copies else list(copies.values())[-1]):
                copies[n] = n.graph.node_copy(n, sources.get)
        return copies[n]

    return copy(node)


def dense(value):
    """A copy as a separate tensor, in the same order."""
    return torch.empty_like(value, memory_format=torch.preserve_format)


def widen_where_read(module):
    """Values of a half type that several nodes read in float32 are widened by each of them: Inductor then keeps the half ones in memory."""
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        if not widens(node):
            continue
        for user in [user for user in node.users if user.op != "output"][1:]:
            with graph.inserting_before(user):
                new = graph.node_copy(node)
            user.replace_input_with(node, new)
    module.recompile()


def widens(node):
    """Whether a node converts values to a wider type."""
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    kind, wide = value_of(node.args[0]).dtype, value_of(node).dtype
    return kind.is_floating_point and wide.is_floating_point and kind.itemsize < wide.itemsize


def compute_masks(joint):
    """Where the gradient of a ReLU reads the convolution's result as well, for the normalisation before that, the mask is computed
    from that result, not read from the ReLU's, which may leave earlier."""
    backward = backward_of(joint.graph)
    for node in joint.graph.find_nodes(op="call_function", target=aten.le.Scalar):
        relu = node.args[0]
        sources = _large_sources(relu) if name_of(relu) == "relu" else ()
        if len(sources) == 1 and _is_read(*sources, relu, backward):
            node.replace_input_with(relu, computed_anew(relu))


def _is_read(source, relu, backward):
    """Whether the backward graph reads a node, or what is computed from it element by element before the ReLU."""
    left, seen = [source], {relu}
    while left:
        users = set(left.pop().users) - seen
        if users & backward:
            return True
        seen |= users
        left += [user for user in users if user.op == "call_function" and kind_of(user) in (COMPUTED, VIEW) and numel(user) >= numel(source)]
    return False


def _large_sources(node):
    """The results of the same size from which a node is computed element by element."""
    found, left, seen = set(), [node], set()
    while left:
        for source in left.pop().all_input_nodes:
            if numel(source) < numel(node) or source in seen:
                continue
            seen.add(source)
            is_passed = source.op == "call_function" and kind_of(source) in (COMPUTED, VIEW)
            (left.append if is_passed else found.add)(source)
    return found
