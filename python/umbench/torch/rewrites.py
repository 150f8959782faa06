"""Changes of graphs that keep their values and reduce memory."""

import torch

from .operators import COMPUTED, VIEW, inductor_kind, operator_name
from .values import backward_nodes_of, largest_numel, stored_bytes, value_of

aten = torch.ops.aten
MIN_SHARE_OF_BUDGET = 1 / 25  # gradients are split only if image and result each take this share, since every operator costs a launch


def split_convolution_gradients(joint, budget_bytes):
    """Splits the gradients of large convolutions into one operator for the filters and one for the image. The former comes first, so that the
    image can be freed before the latter, a convolution in the other direction, allocates its result. If the image is a concatenation, its
    parts are read and recomputed one by one, and the gradient of each part is a separate operator."""
    for node in joint.graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient, image, filters, *_, group_count, gradient_mask = node.args
        image_and_gradient = (value_of(image), value_of(gradient))
        read_item_numbers = {item.args[1] for item in node.users}
        if (not (gradient_mask[0] and gradient_mask[1] and read_item_numbers >= {0, 1})
                or group_count > 1 or min(map(stored_bytes, image_and_gradient)) < budget_bytes * MIN_SHARE_OF_BUDGET):
            continue
        gradient_split = ConvolutionGradientSplit(joint.graph, node)
        with joint.graph.inserting_before(node):
            gradient_split.replace_filter_gradient(node)
            gradient_split.replace_image_gradient(node)
        for item in [*node.users]:
            joint.graph.erase_node(item)
        joint.graph.erase_node(node)


class ConvolutionGradientSplit:
    """Rewrites the gradients of a convolution in a graph."""

    def __init__(self, graph, node):
        self.graph, self.meta = graph, node.meta
        self.gradient, self.image, self.filters, self.bias, self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups, self.mask = node.args
        self.channels = 0 if self.transposed else 1  # the dimension of the filters that belongs to the image's channels
        self.of_image, self.of_filters, self.of_bias = node.meta["val"]
        self.items = {item.args[1]: item for item in node.users}

    def add_call(self, operator, arguments, traced_value):
        node = self.graph.call_function(operator, arguments)
        node.meta = {**self.meta, "val": traced_value}
        return node

    def slice_filters(self, begin_channel, end_channel):
        if end_channel - begin_channel == self.of_image.shape[1]:
            return self.filters
        value = value_of(self.filters).narrow(self.channels, begin_channel, end_channel - begin_channel)
        return self.add_call(aten.slice.Tensor, (self.filters, self.channels, begin_channel, end_channel), value)

    def replace_filter_gradient(self, node):
        """Replaces the gradients of filters and bias."""
        part_gradients, begin_channel = [], 0
        for image_part in recompute_parts_of_concatenation(self.image):
            end_channel = begin_channel + value_of(image_part).shape[1]
            mask = [False, True, self.mask[2] and not part_gradients]
            traced_values = (None, empty_dense_like(self.of_filters.narrow(self.channels, begin_channel, end_channel - begin_channel)),
                             self.of_bias if mask[2] else None)
            options = self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups
            gradients_node = self.add_call(node.target,
                                           (self.gradient, image_part, self.slice_filters(begin_channel, end_channel), self.bias, *options, mask),
                                           traced_values)
            if mask[2] and 2 in self.items:
                self.replace_item(2, self.add_call(self.items[2].target, (gradients_node, 2), self.of_bias))
            part_gradients.append(self.add_call(self.items[1].target, (gradients_node, 1), traced_values[1]))
            begin_channel = end_channel
        self.replace_item(1, part_gradients[0] if len(part_gradients) == 1
                          else self.add_call(aten.cat.default, (part_gradients, self.channels), self.of_filters))

    def replace_image_gradient(self, node):
        """Replaces the gradient of the image, or those of its parts if nothing reads all of it."""
        users = list(self.items[0].users)
        if not all(user.target is aten.slice.Tensor and user.args[1] == 1 and len(user.args) == 4 for user in users):
            with self.graph.inserting_before(self.insertion_point(self.items[0])):
                self.replace_item(0, self.add_image_gradient(0, self.of_image.shape[1], self.of_image))
            return
        for user in users:
            begin_channel, end_channel = user.args[2], min(user.args[3], self.of_image.shape[1])
            with self.graph.inserting_before(self.insertion_point(user)):
                user.replace_all_uses_with(self.add_image_gradient(begin_channel, end_channel, empty_dense_like(value_of(user))))
            self.graph.erase_node(user)

    def insertion_point(self, image_gradient):
        """The node before which the gradient of an image, or of a part of it, is inserted: its first reader, or the node that computed it if the
        gradient of the result is larger and nothing else reads that until then."""
        if not image_gradient.users:
            return image_gradient
        first_reader = min(image_gradient.users)
        is_read_until_then = any(image_gradient < reader < first_reader for reader in self.gradient.users)
        return first_reader if is_read_until_then or largest_numel(image_gradient) >= largest_numel(self.gradient) else image_gradient

    def add_image_gradient(self, begin_channel, end_channel, traced_gradient):
        """Adds the convolution that computes the gradient of the image's channels [begin_channel, end_channel), with that traced value."""
        output_padding = [0] * len(self.stride)
        if not self.transposed:
            output_padding = output_padding_of(traced_gradient, value_of(self.gradient), value_of(self.filters),
                                               self.stride, self.padding, self.dilation)
        options = self.stride, self.padding, self.dilation, not self.transposed, output_padding, self.groups
        return self.add_call(aten.convolution.default,
                             (self.gradient, self.slice_filters(begin_channel, end_channel), None, *options), traced_gradient)

    def replace_item(self, item_number, node):
        self.items[item_number].replace_all_uses_with(node)


def output_padding_of(image, gradient, filters, stride, padding, dilation):
    """The output_padding of a transposed convolution: the elements by which the image exceeds its result, in each direction."""
    sizes = zip(image.shape[2:], gradient.shape[2:], filters.shape[2:], stride, padding, dilation)
    return [large - ((small - 1) * s - 2 * p + d * (f - 1) + 1) for large, small, f, s, p, d in sizes]


def recompute_parts_of_concatenation(image):
    """Inserts nodes that compute the parts of an image again if it is a concatenation along channels, and returns them; else [image]."""
    if operator_name(image) != "cat" or image.args[1:] != (1,):
        return [image]
    return [insert_recomputation(part) for part in image.args[0]]


def insert_recomputation(node):
    """Copies a node and the element-wise operators before it, so that its value need not stay in memory between two readers. Returns the
    copy of the node."""
    copy_of_node = {}

    def copy_if_recomputed(source_node):
        if source_node.op != "call_function" or inductor_kind(source_node) not in (COMPUTED, VIEW) or largest_numel(source_node) < largest_numel(node):
            return source_node
        if source_node not in copy_of_node:
            sources = {source: copy_if_recomputed(source) for source in source_node.all_input_nodes}
            with source_node.graph.inserting_after(node if not copy_of_node else list(copy_of_node.values())[-1]):
                copy_of_node[source_node] = source_node.graph.node_copy(source_node, sources.get)
        return copy_of_node[source_node]

    return copy_if_recomputed(node)


def empty_dense_like(traced_tensor):
    """An empty tensor like a traced one, but with dense memory, in the same order."""
    return torch.empty_like(traced_tensor, memory_format=torch.preserve_format)


def widen_in_each_reader(module):
    """Makes each node that reads a half-precision value in float32 convert it separately, so that Inductor keeps the half-precision value in
    memory. The module is not recompiled."""
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        if not widens(node):
            continue
        for user in [user for user in node.users if user.op != "output"][1:]:
            with graph.inserting_before(user):
                own_conversion = graph.node_copy(node)
            user.replace_input_with(node, own_conversion)


def widens(node):
    """Whether a node converts values to a wider type."""
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    source_type, result_type = value_of(node.args[0]).dtype, value_of(node).dtype
    return source_type.is_floating_point and result_type.is_floating_point and source_type.itemsize < result_type.itemsize


def recompute_relu_for_mask(joint):
    """Computes a ReLU again for the mask of its gradient, from the convolution's result, if the backward graph reads that result anyway for the
    normalisation before the ReLU. Then the first result of the ReLU can be freed earlier."""
    backward_nodes = backward_nodes_of(joint.graph)
    for node in joint.graph.find_nodes(op="call_function", target=aten.le.Scalar):
        relu = node.args[0]
        sources = _large_sources(relu) if operator_name(relu) == "relu" else ()
        if len(sources) == 1 and _is_read_by_backward(*sources, relu, backward_nodes):
            node.replace_input_with(relu, insert_recomputation(relu))


def _is_read_by_backward(source, relu, backward_nodes):
    """Whether the backward graph reads `source`, or a value that element-wise operators before the ReLU compute from it."""
    unvisited, seen = [source], {relu}
    while unvisited:
        users = set(unvisited.pop().users) - seen
        if users & backward_nodes:
            return True
        seen |= users
        unvisited += [user for user in users
                      if user.op == "call_function" and inductor_kind(user) in (COMPUTED, VIEW) and largest_numel(user) >= largest_numel(source)]
    return False


def _large_sources(node):
    """Nodes at least as large as `node` from which it is computed. Views and fused operators between them and `node` are left out."""
    large_sources, unvisited, seen = set(), [node], set()
    while unvisited:
        for source in unvisited.pop().all_input_nodes:
            if largest_numel(source) < largest_numel(node) or source in seen:
                continue
            seen.add(source)
            is_passed = source.op == "call_function" and inductor_kind(source) in (COMPUTED, VIEW)
            (unvisited.append if is_passed else large_sources.add)(source)
    return large_sources
