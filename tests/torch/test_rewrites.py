"""Rewritten graphs give the same values."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import umbench.torch  # noqa: E402
from umbench.torch import planner, private, rewrites, skips, step, values  # noqa: E402
from umbench.torch.bench import models  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize("stride, padding, dilation, transposed", [(1, 1, 1, False), (2, 3, 1, False), (3, 0, 2, False), (2, 0, 1, True), (2, 1, 1, True)])
def test_gradients_of_a_convolution_are_parted(stride, padding, dilation, transposed):
    image, filters = torch.randn(2, 4, 14, 11, dtype=torch.float64), torch.randn(4 if transposed else 6, 6 if transposed else 4, 3, 3, dtype=torch.float64)
    options = [stride] * 2, [padding] * 2, [dilation] * 2, transposed, [0, 0], 1
    gradient = torch.randn_like(aten.convolution(image, filters, None, *options))

    def gradients(gradient, image, filters):
        of_image, of_filters, of_bias = aten.convolution_backward(gradient, image, filters, [6], *options, [True, True, True])
        return of_image * 2, of_filters * 2, of_bias

    graph = make_fx(gradients)(gradient, image, filters)
    for node in graph.graph.nodes:  # as traced with fake tensors
        node.meta.setdefault("val", None)
    wanted = graph(gradient, image, filters)
    rewrites.split_convolution_gradients(graph, 1)
    graph.graph.lint()
    graph.recompile()
    (whole,) = graph.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)
    (other,) = graph.graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert whole.args[10] == [False, True, True] and image_argument(whole) not in other.all_input_nodes
    torch.testing.assert_close(graph(gradient, image, filters), wanted)


def test_parts_of_an_image_are_read_one_by_one():
    first, second, filters = (torch.randn(2, n, 8, 8, dtype=torch.float64) for n in (4, 6, 10))
    filters = torch.randn(5, 10, 3, 3, dtype=torch.float64)

    def gradients(first, second, filters):
        image = torch.cat([first.relu(), second], 1)
        made = aten.convolution(image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        of_image, of_filters, _ = aten.convolution_backward(made, image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
        return of_image[:, :4] * 2, of_image[:, 4:] + 1, of_filters

    graph = make_fx(gradients)(first, second, filters)
    wanted = graph(first, second, filters)
    rewrites.split_convolution_gradients(graph, 1)
    graph.graph.lint()
    graph.recompile()
    (cat,) = (n for n in graph.graph.find_nodes(op="call_function", target=aten.cat.default) if n.meta["val"].dim() == 4 and n.meta["val"].shape[2] == 8)
    assert [user.target for user in cat.users] == [aten.convolution.default]
    assert len(graph.graph.find_nodes(op="call_function", target=aten.relu.default)) == 2
    torch.testing.assert_close(graph(first, second, filters), wanted)


def image_argument(node):
    return node.args[1]


def test_gradients_that_nothing_reads_stay_in_one_operator():
    """The gradient of the filters is dead; its mask still asks for it."""
    def gradient_of_image(gradient, image, filters):
        return torch.ops.aten.convolution_backward(gradient, image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])[0]

    graph = make_fx(gradient_of_image, tracing_mode="fake")(torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3))
    graph.graph.eliminate_dead_code()
    before = len(graph.graph.nodes)
    rewrites.split_convolution_gradients(graph, 1)
    assert len(graph.graph.nodes) == before


def test_small_convolutions_stay_whole():
    image, filters = torch.randn(1, 1, 4, 4), torch.randn(1, 1, 3, 3)
    graph = make_fx(lambda g, x, w: aten.convolution_backward(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])[:2])(image, image, filters)
    before = graph.code
    rewrites.split_convolution_gradients(graph, 1 << 20)
    assert graph.code == before


def test_what_is_read_often_is_widened_by_each_reader():
    def run(x):
        half = x.to(torch.bfloat16)
        wide = half.float()
        return wide.sum(), wide * 2, wide

    x = torch.randn(8, 8)
    graph = make_fx(run)(x)
    graph = make_fx(graph, decomposition_table={aten._to_copy.default: lambda x, dtype, **_: torch.ops.prims.convert_element_type(x, dtype)})(x)
    wanted = graph(x)
    rewrites.widen_in_each_reader(graph)
    graph.recompile()
    wide = [n for n in graph.graph.nodes if rewrites.widens(n)]
    assert [len(n.users) for n in wide] == [2, 1]  # one of them is a result as well
    assert all(torch.equal(a, b) for a, b in zip(graph(x), wanted))


def test_a_fitted_unet_has_the_gradients_of_the_whole_one(monkeypatch):
    simplify = private.remove_dead_and_repeated_nodes

    def simplify_and_split(joint):
        simplify(joint)
        before = len(joint.graph.nodes)
        rewrites.split_convolution_gradients(joint, 1)
        assert len(joint.graph.nodes) > before

    try:
        planner.program_path()
    except planner.NoPlan:
        pytest.skip("the program umbench is not built")
    torch.manual_seed(0)
    model, x, labels = models.WithLoss(models.UNet(width=8, depth=1)), torch.randn(2, 3, 16, 16), torch.randint(2, (2, 16, 16))
    whole = copy.deepcopy(model)
    whole(x, labels).backward()
    monkeypatch.setattr(private, "remove_dead_and_repeated_nodes", simplify_and_split)
    model = umbench.torch.fit(model, budget="1TiB", backend="aot_eager", effort=0.003)
    model(x, labels).backward()
    assert not model.plan.differences
    for a, b in zip(model.parameters(), whole.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_masks_are_computed_from_what_was_normalised():
    def gradients(tangents, image, other, filters):
        made, second = (aten.convolution(x, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1) for x in (image, other))
        alone, both = (made * 2 - 1).relu(), (made + second).relu()
        masks = [aten.le.Scalar(relu, 0) for relu in (alone, both)]
        return [aten.where.self(mask, tangents * 0, tangents) for mask in masks] + [alone + both, (made * 2) * tangents, second * tangents]

    inputs = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.randn(3, 3, 3, 3)
    graph = make_fx(gradients, tracing_mode="fake")(*inputs)
    wanted = graph(*inputs)
    alone, both = graph.graph.find_nodes(op="call_function", target=aten.relu.default)
    rewrites.recompute_relu_for_mask(graph)
    graph.graph.lint()
    graph.recompile()
    assert [user.target for user in alone.users] == [aten.add.Tensor]
    assert aten.le.Scalar in [user.target for user in both.users]  # two results would have to be read
    assert all(map(torch.equal, graph(*inputs), wanted))


def test_masks_stay_where_the_backward_pass_reads_nothing_else():
    def gradients(tangents, image, filters):
        relu = (aten.convolution(image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1) * 2).relu()
        return relu, aten.where.self(aten.le.Scalar(relu, 0), tangents * 0, tangents)

    graph = make_fx(gradients, tracing_mode="fake")(torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.randn(3, 3, 3, 3))
    before = graph.code
    rewrites.recompute_relu_for_mask(graph)
    graph.recompile()
    assert graph.code == before


def test_images_that_are_read_long_after_are_computed_once_or_twice():
    def convolve(image, filters):
        return aten.convolution(image, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)

    def gradients(tangents, image, first, inner):
        def halve_size(x):
            return aten.convolution(x, inner, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1).relu()

        def double_size(x):
            return aten.upsample_nearest2d(x, [2 * n for n in x.shape[2:]])

        outer = convolve(image, first).relu()
        middle = halve_size(outer)
        deep = double_size(convolve(convolve(halve_size(middle), inner).relu(), inner))
        joined = torch.cat([middle, convolve(deep, inner)], 1)
        wide = double_size(convolve(convolve(joined[:, :4] + joined[:, 4:], inner), inner))
        last = torch.cat([outer, wide], 1)
        of_last = (last * tangents).sum()
        return last, of_last, (joined * of_last).sum()

    inputs = torch.randn(1), torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3), torch.randn(4, 4, 3, 3)
    graph = make_fx(gradients, tracing_mode="fake")(*inputs)
    graph.graph.eliminate_dead_code()
    wanted = graph(*inputs)
    found = skips.find_skips(graph, 1)
    assert [[part.name for part in parts] for parts in found.values()] == [["relu_1"], ["relu"]]
    for variant, cats in zip(skips.make_graph_variants(graph, 1), (2, 4), strict=True):
        variant.graph.lint()
        variant.recompile()
        kinds = [node.target for node in variant.graph.nodes]
        assert kinds.count(aten.cat.default) == cats and kinds.count(aten.convolution.default) == 8 + (cats == 4)  # the largest is not repeated
        assert all(map(torch.allclose, variant(*inputs), wanted))
    backward, names = values.backward_nodes_of(variant.graph), {cat.name: {part.name for part in parts} for cat, parts in found.items()}
    for cat in [node for node in variant.graph.nodes if node.name in names]:
        assert not backward & set(cat.users) and not names[cat.name] & {part.name for part in cat.args[0]}


def test_the_gradient_of_maxima_shares_a_kernel_with_what_reads_it():
    graph = make_fx(lambda x, g: aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[1]) + x,
                    tracing_mode="fake")(torch.randn(1, 1, 4, 4), torch.randn(1, 1, 2, 2))
    (node,) = graph.graph.find_nodes(op="call_function", target=aten.max_pool2d_with_indices_backward.default)
    assert step.planner_kind(node) == "reduction"
