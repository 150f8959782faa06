"""Changes of graphs that keep their values and reduce memory."""

import torch

from .operators import COMPUTED, VIEW, kind_of, name_of
from .values import backward_of, numel, stored_bytes, value_of

aten = torch.ops.aten
MIN_SHARE_OF_BUDGET = 1 / 25  # gradients are split only if image and result each take this share, since every operator costs a launch


def split_convolution_gradients(joint, budget):
    """Splits the gradients of large convolutions into one operator for the filters and one for the image. The former comes first, so that the
    image can be freed before the latter, a convolution in the other direction, allocates its result. If the image is a concatenation, its
    parts are read and recomputed one by one, and the gradient of each part is a separate operator. budget: bytes."""
    for node in joint.graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient, image, filters, *_, groups, mask = node.args
        images = (value_of(image), value_of(gradient))
        read = {item.args[1] for item in node.users}
        if not (mask[0] and mask[1] and read >= {0, 1}) or groups > 1 or min(map(stored_bytes, images)) < budget * MIN_SHARE_OF_BUDGET:
            continue
        whole = ConvolutionBackward(joint.graph, node)
        with joint.graph.inserting_before(node):
            whole.replace_filter_gradient(node)
            whole.replace_image_gradient(node)
        for item in [*node.users]:
            joint.graph.erase_node(item)
        joint.graph.erase_node(node)


class ConvolutionBackward:
    """Rewrites the gradients of a convolution in a graph."""

    def __init__(self, graph, node):
        self.graph, self.meta = graph, node.meta
        self.gradient, self.image, self.filters, self.bias, self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups, self.mask = node.args
        self.channels = 0 if self.transposed else 1  # the dimension of the filters that belongs to the image's channels
        self.of_image, self.of_filters, self.of_bias = node.meta["val"]
        self.items = {item.args[1]: item for item in node.users}

    def call(self, target, args, value):
        made = self.graph.call_function(target, args)
        made.meta = {**self.meta, "val": value}
        return made

    def filters_slice(self, begin, end):
        if end - begin == self.of_image.shape[1]:
            return self.filters
        value = value_of(self.filters).narrow(self.channels, begin, end - begin)
        return self.call(aten.slice.Tensor, (self.filters, self.channels, begin, end), value)

    def replace_filter_gradient(self, node):
        """Replaces the gradients of filters and bias."""
        made, begin = [], 0
        for image in recompute_parts_of_concatenation(self.image):
            end = begin + value_of(image).shape[1]
            mask = [False, True, self.mask[2] and not made]
            values = (None, dense_like(self.of_filters.narrow(self.channels, begin, end - begin)), self.of_bias if mask[2] else None)
            others = self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups
            both = self.call(node.target, (self.gradient, image, self.filters_slice(begin, end), self.bias, *others, mask), values)
            if mask[2] and 2 in self.items:
                self.replace(2, self.call(self.items[2].target, (both, 2), self.of_bias))
            made.append(self.call(self.items[1].target, (both, 1), values[1]))
            begin = end
        self.replace(1, made[0] if len(made) == 1 else self.call(aten.cat.default, (made, self.channels), self.of_filters))

    def replace_image_gradient(self, node):
        """Replaces the gradient of the image, or those of its parts if nothing reads all of it."""
        users = list(self.items[0].users)
        if not all(user.target is aten.slice.Tensor and user.args[1] == 1 and len(user.args) == 4 for user in users):
            with self.graph.inserting_before(self.insertion_point(self.items[0])):
                self.replace(0, self.image_gradient(0, self.of_image.shape[1], self.of_image))
            return
        for user in users:
            begin, end = user.args[2], min(user.args[3], self.of_image.shape[1])
            with self.graph.inserting_before(self.insertion_point(user)):
                user.replace_all_uses_with(self.image_gradient(begin, end, dense_like(value_of(user))))
            self.graph.erase_node(user)

    def insertion_point(self, image_gradient):
        """The node before which the gradient of an image, or of a part of it, is inserted: its first reader, or the node that computed it if the
        gradient of the result is larger and nothing else reads that until then."""
        if not image_gradient.users:
            return image_gradient
        first = min(image_gradient.users)
        is_read_until_then = any(image_gradient < reader < first for reader in self.gradient.users)
        return first if is_read_until_then or numel(image_gradient) >= numel(self.gradient) else image_gradient

    def image_gradient(self, begin, end, value):
        output_padding = [0] * len(self.stride)
        if not self.transposed:
            output_padding = output_padding_of(value, value_of(self.gradient), value_of(self.filters), self.stride, self.padding, self.dilation)
        options = self.stride, self.padding, self.dilation, not self.transposed, output_padding, self.groups
        return self.call(aten.convolution.default, (self.gradient, self.filters_slice(begin, end), None, *options), value)

    def replace(self, item_number, node):
        self.items[item_number].replace_all_uses_with(node)


def output_padding_of(image, gradient, filters, stride, padding, dilation):
    """The output_padding of a transposed convolution: the elements by which the image exceeds its result, in each direction."""
    sizes = zip(image.shape[2:], gradient.shape[2:], filters.shape[2:], stride, padding, dilation)
    return [large - ((small - 1) * s - 2 * p + d * (f - 1) + 1) for large, small, f, s, p, d in sizes]


def recompute_parts_of_concatenation(image):
    """Inserts nodes that compute the parts of an image again if it is a concatenation along channels, and returns them; else [image]."""
    if name_of(image) != "cat" or image.args[1:] != (1,):
        return [image]
    return [insert_recomputation(part) for part in image.args[0]]


def insert_recomputation(node):
    """Copies a node and the element-wise operators before it, so that its value need not stay in memory between two readers. Returns the
    copy of the node."""
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


def dense_like(value):
    """An empty tensor like a traced one, but with dense memory, in the same order."""
    return torch.empty_like(value, memory_format=torch.preserve_format)


def widen_where_read(module):
    """Makes each node that reads a half-precision value in float32 convert it separately, so that Inductor keeps the half-precision value in
    memory."""
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


def recompute_relu_for_mask(joint):
    """Computes a ReLU again for the mask of its gradient, from the convolution's result, if the backward graph reads that result anyway for the
    normalisation before the ReLU. Then the first result of the ReLU can be freed earlier."""
    backward = backward_of(joint.graph)
    for node in joint.graph.find_nodes(op="call_function", target=aten.le.Scalar):
        relu = node.args[0]
        sources = _large_sources(relu) if name_of(relu) == "relu" else ()
        if len(sources) == 1 and _is_read_by_backward(*sources, relu, backward):
            node.replace_input_with(relu, insert_recomputation(relu))


def _is_read_by_backward(source, relu, backward):
    """Whether the backward graph reads `source`, or a value that element-wise operators before the ReLU compute from it."""
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
