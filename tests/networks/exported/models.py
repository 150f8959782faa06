"""The models behind the graph files of this folder. They are written again by

    umbench export --as eager tests/networks/exported/models.py:NAME -o tests/networks/exported/NAME.json

with PyTorch 2.6 or later and torchvision. AlexNet and VGG-16 are without dropout, as umbench's own are.
"""

import torch
import torchvision
from torch import nn

IMAGES = 32


def image_model(name, **changes):
    return getattr(torchvision.models, name)(**changes), (torch.randn(IMAGES, 3, 224, 224),)


def alexnet():
    return image_model("alexnet", dropout=0.0)


def vgg16():
    return image_model("vgg16", dropout=0.0)


def resnet50():
    return image_model("resnet50")


def densenet121():
    return image_model("densenet121")


def mobilenet_v2():
    return image_model("mobilenet_v2")


def convnext_t():
    return image_model("convnext_tiny")


def vit_b_16():
    return image_model("vit_b_16")


def swin_t():
    return image_model("swin_t")


# --- a U-Net for pictures of 256 x 256, two classes a pixel ---

def two_convolutions(channels, filters):
    def one(before):
        return [nn.Conv2d(before, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()]

    return nn.Sequential(*one(channels), *one(filters))


class UNet(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512, 1024), classes=2):
        super().__init__()
        self.down = nn.ModuleList(two_convolutions(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(two_convolutions(b, a) for a, b in zip(widths, widths[1:]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for i, stage in enumerate(self.down):
            x = stage(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.merge[i](torch.cat([kept[i], self.up[i](x)], 1))
        return self.head(x)


def unet():
    return UNet(), (torch.randn(16, 3, 256, 256),)


# --- GPT-2 small, 1024 tokens; the loss is of the next token ---

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.ln_1(x)).chunk(3, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=50257, tokens=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, following):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def gpt2_small():
    tokens = torch.zeros(8, 1024, dtype=torch.long)
    return GPT2(), (tokens, tokens.clone())


# --- three layers of a GRU over 64 texts of 35 words, of 10,000 words ---

class Words(nn.Module):
    def __init__(self, words=10_000, width=1024, layers=3):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(words, width), nn.GRU(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, following):
        logits = self.head(self.layers(self.embedding(tokens))[0])
        return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def gru():
    tokens = torch.zeros(64, 35, dtype=torch.long)
    return Words(), (tokens, tokens.clone())
