"""The networks that peers are timed on, as plain data: no framework is needed to read them.

Layers carry umbench's names (`umbench list networks`), so that parameters and gradients are exchanged
by name: layer `conv1` owns `conv1.w` and `conv1.b`, a normalisation `bn1` owns `bn1.scale` and
`bn1.shift`, and the gradient of `conv1.w` is `conv1.dw`.
"""

from collections import namedtuple

Conv = namedtuple("Conv", "name inputs outputs kernel stride pad bias", defaults=(1, 0, True))
Norm = namedtuple("Norm", "name channels")
Relu = namedtuple("Relu", "")
Pool = namedtuple("Pool", "window stride pad", defaults=(0,))
GlobalPool = namedtuple("GlobalPool", "")
Flatten = namedtuple("Flatten", "")
Linear = namedtuple("Linear", "name inputs outputs")
# relu(body(x) + shortcut(x)); an empty shortcut is x itself.
Residual = namedtuple("Residual", "body shortcut")

INSIZE, CLASSES = 224, 1000

VGG_STAGES = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
# Blocks in each stage, and whether they are bottlenecks.
RESNETS = {"resnet18": ((2, 2, 2, 2), False), "resnet34": ((3, 4, 6, 3), False), "resnet50": ((3, 4, 6, 3), True),
           "resnet101": ((3, 4, 23, 3), True), "resnet152": ((3, 8, 36, 3), True)}
NAMES = ("alexnet", *VGG_STAGES, *RESNETS)


def layers_of(network):
    """The layers of a network, first one first."""
    if network == "alexnet":
        return alexnet()
    return vgg(VGG_STAGES[network]) if network in VGG_STAGES else resnet(*RESNETS[network])


def classifier(features):
    return [Flatten(), Linear("fc6", features, 4096), Relu(), Linear("fc7", 4096, 4096), Relu(),
            Linear("fc8", 4096, CLASSES)]


def alexnet():
    return [Conv("conv1", 3, 64, 11, 4, 2), Relu(), Pool(3, 2),
            Conv("conv2", 64, 192, 5, 1, 2), Relu(), Pool(3, 2),
            Conv("conv3", 192, 384, 3, 1, 1), Relu(),
            Conv("conv4", 384, 256, 3, 1, 1), Relu(),
            Conv("conv5", 256, 256, 3, 1, 1), Relu(), Pool(3, 2), *classifier(256 * 6 * 6)]


def vgg(stages):
    layers, channels = [], 3
    for stage, (width, depth) in enumerate(zip((64, 128, 256, 512, 512), stages), start=1):
        for number in range(1, depth + 1):
            layers += [Conv(f"conv{stage}_{number}", channels, width, 3, 1, 1), Relu()]
            channels = width
        layers.append(Pool(2, 2))
    return layers + classifier(512 * 7 * 7)


def _normalized(conv, norm, inputs, outputs, kernel, stride=1):
    return [Conv(conv, inputs, outputs, kernel, stride, kernel // 2, False), Norm(norm, outputs)]


def _block(name, inputs, width, outputs, stride):
    if outputs == width:  # two 3 x 3 convolutions; else a bottleneck around one
        body = [*_normalized(f"{name}.conv1", f"{name}.bn1", inputs, width, 3, stride), Relu(),
                *_normalized(f"{name}.conv2", f"{name}.bn2", width, width, 3)]
    else:
        body = [*_normalized(f"{name}.conv1", f"{name}.bn1", inputs, width, 1), Relu(),
                *_normalized(f"{name}.conv2", f"{name}.bn2", width, width, 3, stride), Relu(),
                *_normalized(f"{name}.conv3", f"{name}.bn3", width, outputs, 1)]
    projects = stride != 1 or inputs != outputs
    shortcut = _normalized(f"{name}.downsample.0", f"{name}.downsample.1", inputs, outputs, 1, stride) if projects else []
    return Residual(tuple(body), tuple(shortcut))


def resnet(stages, bottleneck):
    layers, channels = [*_normalized("conv1", "bn1", 3, 64, 7, 2), Relu(), Pool(3, 2, 1)], 64
    for stage, depth in enumerate(stages):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        for number in range(depth):
            stride = 2 if stage > 0 and number == 0 else 1
            layers.append(_block(f"layer{stage + 1}.{number}", channels, width, outputs, stride))
            channels = outputs
    return layers + [GlobalPool(), Flatten(), Linear("fc", channels, CLASSES)]


def parameters_of(layer):
    """{umbench's name: (the framework's attribute, extents)} of one layer, inner layers left out."""
    if isinstance(layer, Conv):
        shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
        bias = {f"{layer.name}.b": ("bias", (layer.outputs,))} if layer.bias else {}
        return {f"{layer.name}.w": ("weight", shape), **bias}
    if isinstance(layer, Linear):
        return {f"{layer.name}.w": ("weight", (layer.outputs, layer.inputs)),
                f"{layer.name}.b": ("bias", (layer.outputs,))}
    if isinstance(layer, Norm):
        return {f"{layer.name}.scale": ("weight", (layer.channels,)), f"{layer.name}.shift": ("bias", (layer.channels,))}
    return {}


def all_parameters(layers):
    """{umbench's name: extents} of a list of layers, those inside residual blocks among them."""
    found = {}
    for layer in layers:
        if isinstance(layer, Residual):
            found |= all_parameters(layer.body) | all_parameters(layer.shortcut)
        found |= {name: shape for name, (_, shape) in parameters_of(layer).items()}
    return found


def gradient_name(parameter):
    """'conv1.w' -> 'conv1.dw'."""
    stem, leaf = parameter.rsplit(".", 1)
    return f"{stem}.d{leaf}"
