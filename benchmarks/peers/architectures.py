"""The networks on which other frameworks are timed, as lists of layers. This module needs no framework.

Layers have umbench's names (`umbench list networks`), by which parameters and gradients are exchanged: layer `conv1` has the parameters
`conv1.w` and `conv1.b`, a normalisation `bn1` has `bn1.scale` and `bn1.shift`; the gradient of `conv1.w` is `conv1.dw`.
"""

from collections import namedtuple

Conv = namedtuple("Conv", "name inputs outputs kernel stride pad bias groups", defaults=(1, 0, True, 1))
Norm = namedtuple("Norm", "name channels epsilon", defaults=(1e-5,))
Relu = namedtuple("Relu", "capped", defaults=(False,))  # capped: it is ReLU6
Pool = namedtuple("Pool", "window stride pad ceil", defaults=(0, False))  # ceil: the last window may extend beyond the padded image
AveragePool = namedtuple("AveragePool", "window stride")
GlobalPool = namedtuple("GlobalPool", "")
Flatten = namedtuple("Flatten", "")
Linear = namedtuple("Linear", "name inputs outputs")
# relu(body(x) + shortcut(x)), without `relu` the sum alone. An empty shortcut stands for x itself.
Residual = namedtuple("Residual", "body shortcut relu", defaults=(True,))
# All bodies read x; the results are concatenated along channels.
Branches = namedtuple("Branches", "bodies")
# Each body reads the concatenation of x and all earlier results; the result is that of x and all results.
Dense = namedtuple("Dense", "bodies")

IMAGE_SIZE, CLASS_COUNT = 224, 1000  # pixels along an edge of an image; classes of labels

VGG_STAGES = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
# {network: (blocks in each stage, whether they are bottlenecks)}
RESNETS = {"resnet18": ((2, 2, 2, 2), False), "resnet34": ((3, 4, 6, 3), False), "resnet50": ((3, 4, 6, 3), True),
           "resnet101": ((3, 4, 23, 3), True), "resnet152": ((3, 8, 36, 3), True)}
NETWORK_NAMES = ("alexnet", *VGG_STAGES, *RESNETS, "googlenet", "densenet121", "mobilenet_v2")
# {inception block: its channels in the order of the arguments of _inception()}
INCEPTIONS = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
              "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
              "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128)}
# (expansion, channels, blocks, stride) of each stage of MobileNetV2
MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def layers_of(network_name):
    """The layers of a network in order."""
    layer_functions = {"alexnet": alexnet, "googlenet": googlenet, "densenet121": densenet121, "mobilenet_v2": mobilenet_v2}
    if network_name in layer_functions:
        return layer_functions[network_name]()
    return vgg(VGG_STAGES[network_name]) if network_name in VGG_STAGES else resnet(*RESNETS[network_name])


def classifier(feature_count):
    return [Flatten(), Linear("fc6", feature_count, 4096), Relu(), Linear("fc7", 4096, 4096), Relu(),
            Linear("fc8", 4096, CLASS_COUNT)]


def alexnet():
    return [Conv("conv1", 3, 64, 11, 4, 2), Relu(), Pool(3, 2),
            Conv("conv2", 64, 192, 5, 1, 2), Relu(), Pool(3, 2),
            Conv("conv3", 192, 384, 3, 1, 1), Relu(),
            Conv("conv4", 384, 256, 3, 1, 1), Relu(),
            Conv("conv5", 256, 256, 3, 1, 1), Relu(), Pool(3, 2), *classifier(256 * 6 * 6)]


def vgg(convolutions_per_stage):
    layers, channels = [], 3
    for stage, (out_channels, convolution_count) in enumerate(zip((64, 128, 256, 512, 512), convolutions_per_stage), start=1):
        for convolution_number in range(1, convolution_count + 1):
            layers += [Conv(f"conv{stage}_{convolution_number}", channels, out_channels, 3, 1, 1), Relu()]
            channels = out_channels
        layers.append(Pool(2, 2))
    return layers + classifier(512 * 7 * 7)


def _convolution_with_norm(conv_name, norm_name, in_channels, out_channels, kernel_size, stride=1):
    """[a convolution without bias, the normalisation after it]."""
    return [Conv(conv_name, in_channels, out_channels, kernel_size, stride, kernel_size // 2, False), Norm(norm_name, out_channels)]


def _residual_block(block_name, in_channels, width, out_channels, stride):
    if out_channels == width:  # two 3 x 3 convolutions; else a bottleneck around one
        body = [*_convolution_with_norm(f"{block_name}.conv1", f"{block_name}.bn1", in_channels, width, 3, stride), Relu(),
                *_convolution_with_norm(f"{block_name}.conv2", f"{block_name}.bn2", width, width, 3)]
    else:
        body = [*_convolution_with_norm(f"{block_name}.conv1", f"{block_name}.bn1", in_channels, width, 1), Relu(),
                *_convolution_with_norm(f"{block_name}.conv2", f"{block_name}.bn2", width, width, 3, stride), Relu(),
                *_convolution_with_norm(f"{block_name}.conv3", f"{block_name}.bn3", width, out_channels, 1)]
    projects = stride != 1 or in_channels != out_channels
    shortcut = _convolution_with_norm(f"{block_name}.downsample.0", f"{block_name}.downsample.1", in_channels, out_channels, 1, stride) if projects else []
    return Residual(tuple(body), tuple(shortcut))


def resnet(blocks_per_stage, has_bottlenecks):
    layers, channels = [*_convolution_with_norm("conv1", "bn1", 3, 64, 7, 2), Relu(), Pool(3, 2, 1)], 64
    for stage, block_count in enumerate(blocks_per_stage):
        width = 64 << stage
        out_channels = 4 * width if has_bottlenecks else width
        for block_number in range(block_count):
            stride = 2 if stage > 0 and block_number == 0 else 1
            layers.append(_residual_block(f"layer{stage + 1}.{block_number}", channels, width, out_channels, stride))
            channels = out_channels
    return layers + [GlobalPool(), Flatten(), Linear("fc", channels, CLASS_COUNT)]


def _convolution_norm_relu(name, in_channels, out_channels, kernel_size, stride=1):
    return [Conv(f"{name}.conv", in_channels, out_channels, kernel_size, stride, kernel_size // 2, False), Norm(f"{name}.bn", out_channels, 1e-3), Relu()]


def _inception(name, in_channels, channels_1x1, reduced_3x3, channels_3x3, reduced_5x5, channels_5x5, channels_pool):
    return Branches((tuple(_convolution_norm_relu(f"{name}.branch1", in_channels, channels_1x1, 1)),
                     (*_convolution_norm_relu(f"{name}.branch2.0", in_channels, reduced_3x3, 1), *_convolution_norm_relu(f"{name}.branch2.1", reduced_3x3, channels_3x3, 3)),
                     (*_convolution_norm_relu(f"{name}.branch3.0", in_channels, reduced_5x5, 1), *_convolution_norm_relu(f"{name}.branch3.1", reduced_5x5, channels_5x5, 3)),
                     (Pool(3, 1, 1, True), *_convolution_norm_relu(f"{name}.branch4.1", in_channels, channels_pool, 1))))


def googlenet():
    layers = [*_convolution_norm_relu("conv1", 3, 64, 7, 2), Pool(3, 2, 0, True), *_convolution_norm_relu("conv2", 64, 64, 1), *_convolution_norm_relu("conv3", 64, 192, 3),
              Pool(3, 2, 0, True)]
    channels = 192
    for name, widths in INCEPTIONS.items():
        if name in ("4a", "5a"):
            layers.append(Pool(3 if name == "4a" else 2, 2, 0, True))
        layers.append(_inception(f"inception{name}", channels, *widths))
        channels = widths[0] + widths[2] + widths[4] + widths[5]
    return layers + [GlobalPool(), Flatten(), Linear("fc", channels, CLASS_COUNT)]


def densenet121():
    layers, channels, channels_per_layer = [Conv("conv0", 3, 64, 7, 2, 3, False), Norm("norm0", 64), Relu(), Pool(3, 2, 1)], 64, 32
    for block_number, layer_count in enumerate((6, 12, 24, 16), start=1):
        if block_number > 1:
            name = f"transition{block_number - 1}"
            layers += [Norm(f"{name}.norm", channels), Relu(), Conv(f"{name}.conv", channels, channels // 2, 1, 1, 0, False),
                       AveragePool(2, 2)]
            channels //= 2
        bodies = []
        for layer_number in range(1, layer_count + 1):
            name = f"denseblock{block_number}.denselayer{layer_number}"
            bodies.append((Norm(f"{name}.norm1", channels), Relu(), Conv(f"{name}.conv1", channels, 4 * channels_per_layer, 1, 1, 0, False),
                           Norm(f"{name}.norm2", 4 * channels_per_layer), Relu(),
                           Conv(f"{name}.conv2", 4 * channels_per_layer, channels_per_layer, 3, 1, 1, False)))
            channels += channels_per_layer
        layers.append(Dense(tuple(bodies)))
    return layers + [Norm("norm5", channels), Relu(), GlobalPool(), Flatten(), Linear("classifier", channels, CLASS_COUNT)]


def mobilenet_v2():
    def convolution_with_norm(name, in_channels, out_channels, kernel_size, stride=1, groups=1):
        return [Conv(f"{name}.conv", in_channels, out_channels, kernel_size, stride, kernel_size // 2, False, groups), Norm(f"{name}.bn", out_channels)]

    layers, channels, feature_number = [*convolution_with_norm("features.0", 3, 32, 3, 2), Relu(True)], 32, 0
    for expansion, stage_channels, block_count, stride in MOBILENET_STAGES:
        for block_index in range(block_count):
            feature_number += 1
            name, hidden_channels, block_stride = f"features.{feature_number}", channels * expansion, stride if block_index == 0 else 1
            expanding_layers = [*convolution_with_norm(f"{name}.expand", channels, hidden_channels, 1), Relu(True)] if expansion > 1 else []
            body = (*expanding_layers,
                    *convolution_with_norm(f"{name}.depthwise", hidden_channels, hidden_channels, 3, block_stride, hidden_channels), Relu(True),
                    *convolution_with_norm(f"{name}.project", hidden_channels, stage_channels, 1))
            layers += [Residual(body, (), False)] if block_stride == 1 and channels == stage_channels else body
            channels = stage_channels
    return layers + [*convolution_with_norm(f"features.{feature_number + 1}", channels, 1280, 1), Relu(True), GlobalPool(), Flatten(),
                     Linear("classifier", 1280, CLASS_COUNT)]


def inner_layer_lists(layer):
    """The lists of layers inside a layer."""
    if isinstance(layer, Residual):
        return [layer.body, layer.shortcut]
    return list(layer.bodies) if isinstance(layer, (Branches, Dense)) else []


def parameters_of(layer):
    """{umbench's name: (the framework's attribute, extents)} of one layer without its inner layers."""
    if isinstance(layer, Conv):
        shape = (layer.outputs, layer.inputs // layer.groups, layer.kernel, layer.kernel)
        bias = {f"{layer.name}.b": ("bias", (layer.outputs,))} if layer.bias else {}
        return {f"{layer.name}.w": ("weight", shape), **bias}
    if isinstance(layer, Linear):
        return {f"{layer.name}.w": ("weight", (layer.outputs, layer.inputs)),
                f"{layer.name}.b": ("bias", (layer.outputs,))}
    if isinstance(layer, Norm):
        return {f"{layer.name}.scale": ("weight", (layer.channels,)), f"{layer.name}.shift": ("bias", (layer.channels,))}
    return {}


def parameter_extents(layers):
    """{umbench's name: extents} of a list of layers, including those inside blocks."""
    extents_of_name = {}
    for layer in layers:
        for inner_layers in inner_layer_lists(layer):
            extents_of_name |= parameter_extents(inner_layers)
        extents_of_name |= {name: shape for name, (_, shape) in parameters_of(layer).items()}
    return extents_of_name


def gradient_name(parameter_name):
    """The name of a parameter's gradient: 'conv1.dw' for 'conv1.w'."""
    stem, kind = parameter_name.rsplit(".", 1)
    return f"{stem}.d{kind}"
