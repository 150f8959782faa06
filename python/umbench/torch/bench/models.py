"""Networks for measurements, defined here so that only torch is needed. Each function returns (model with its loss, inputs).

Shapes follow the papers: ResNet-50 (He et al. 2016), GPT-2 (Radford et al. 2019), ViT-B/16 (Dosovitskiy et al. 2021), Swin-T (Liu et al.
2021), ConvNeXt-T (Liu et al. 2022), U-Net (Ronneberger et al. 2015), Llama with LoRA (Touvron et al. 2023, Hu et al. 2021)."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

from .swin import Swin


class WithLoss(nn.Module):
    """Cross-entropy of the logits; under autocast to bfloat16 on a GPU."""

    def __init__(self, model, uses_autocast=True):
        super().__init__()
        self.model, self.autocast = model, uses_autocast

    def forward(self, x, labels):
        with torch.autocast("cuda", torch.bfloat16) if self.autocast and x.is_cuda else contextlib.nullcontext():
            logits = self.model(x)
            return F.cross_entropy(logits.flatten(0, 1) if logits.dim() == 3 else logits, labels.flatten() if logits.dim() == 3 else labels)


class Bottleneck(nn.Module):
    def __init__(self, in_channels, width, stride):
        super().__init__()
        out_channels = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels))
        self.skip = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.skip = nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, blocks_per_stage=(3, 4, 6, 3), width=64, class_count=1000):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, channels = [], width
        for stage, block_count in enumerate(blocks_per_stage):
            for block_index in range(block_count):
                blocks.append(Bottleneck(channels, width << stage, 2 if stage and block_index == 0 else 1))
                channels = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, class_count)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, head_count, is_causal):
        super().__init__()
        self.heads, self.causal = head_count, is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, text_length, c = x.shape
        q, k, v = (projection.view(b, text_length, self.heads, c // self.heads).transpose(1, 2) for projection in self.qkv(x).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, text_length, c))


class TransformerBlock(nn.Module):
    def __init__(self, width, head_count, is_causal, dropout=0.0):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, head_count, is_causal)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.feed(self.norm2(x)))


class GPT2(nn.Module):
    def __init__(self, block_count=12, width=768, head_count=12, vocabulary_size=50304, max_length=1024, dropout=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary_size, width), nn.Embedding(max_length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, head_count, True, dropout) for _ in range(block_count)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary_size, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device)))))


class ViT(nn.Module):
    def __init__(self, block_count=12, width=768, head_count=12, patch_size=16, image_size=224, class_count=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch_size, patch_size)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (image_size // patch_size) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(TransformerBlock(width, head_count, False) for _ in range(block_count)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, class_count)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.feed(self.norm(self.depthwise(x).permute(0, 2, 3, 1))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of an image."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, blocks_per_stage=(3, 3, 9, 3), width_per_stage=(96, 192, 384, 768), class_count=1000):
        super().__init__()
        layers, channels = [nn.Conv2d(3, width_per_stage[0], 4, 4), ChannelNorm(width_per_stage[0])], width_per_stage[0]
        for stage, (block_count, width) in enumerate(zip(blocks_per_stage, width_per_stage)):
            if stage:
                layers += [ChannelNorm(channels), nn.Conv2d(channels, width, 2, 2)]
            layers += [ConvNeXtBlock(width) for _ in range(block_count)]
            channels = width
        self.body = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, class_count)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((2, 3))))


def two_convolutions(in_channels, out_channels):
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 3, 1, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU(),
                         nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=64, depth=4, class_count=2):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList([two_convolutions(a, b) for a, b in zip([3, *widths[:-1]], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip(widths[:0:-1], widths[-2::-1])])
        self.merge = nn.ModuleList([two_convolutions(2 * b, b) for b in widths[-2::-1]])
        self.head = nn.Conv2d(width, class_count, 1)

    def forward(self, x):
        skips = []
        for i, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class LoraLinear(nn.Module):
    """A frozen linear layer plus a trained product of low rank (Hu et al. 2021)."""

    def __init__(self, in_features, out_features, rank=16):
        super().__init__()
        self.frozen = frozen_linear(in_features, out_features)
        self.down, self.up = nn.Linear(in_features, rank, bias=False), nn.Linear(rank, out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def frozen_linear(in_features, out_features):
    return nn.Linear(in_features, out_features, bias=False).requires_grad_(False)


class LlamaBlock(nn.Module):
    def __init__(self, width, head_count, key_head_count, hidden_width):
        super().__init__()
        self.heads, self.key_heads, self.head_width = head_count, key_head_count, width // head_count
        self.norm1, self.norm2 = nn.RMSNorm(width).requires_grad_(False), nn.RMSNorm(width).requires_grad_(False)
        key_width = key_head_count * self.head_width
        self.q, self.k, self.v = LoraLinear(width, width), frozen_linear(width, key_width), LoraLinear(width, key_width)
        self.out, self.gate, self.up = frozen_linear(width, width), frozen_linear(width, hidden_width), frozen_linear(width, hidden_width)
        self.down = frozen_linear(hidden_width, width)

    def forward(self, x, cos, sin):
        b, text_length, _ = x.shape
        y = self.norm1(x)
        q, k, v = (projection(y).view(b, text_length, head_count, self.head_width).transpose(1, 2)
                   for projection, head_count in ((self.q, self.heads), (self.k, self.key_heads), (self.v, self.key_heads)))
        q, k = with_rotary_positions(q, cos, sin), with_rotary_positions(k, cos, sin)
        k, v = (keys_or_values.repeat_interleave(self.heads // self.key_heads, 1) for keys_or_values in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, text_length, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def with_rotary_positions(queries_or_keys, cos, sin):
    """Each pair of elements, one from each half of the last extent, rotated by its angle."""
    first_half, second_half = queries_or_keys.chunk(2, -1)
    return torch.cat([first_half * cos - second_half * sin, second_half * cos + first_half * sin], -1)


class Llama(nn.Module):
    """Llama (Touvron et al. 2023) of one billion parameters, whose products are frozen and have low-rank additions."""

    def __init__(self, block_count=16, width=2048, head_count=32, key_head_count=8, hidden_width=8192, vocabulary_size=128256, max_length=2048):
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, width).requires_grad_(False)
        self.blocks = nn.ModuleList(LlamaBlock(width, head_count, key_head_count, hidden_width) for _ in range(block_count))
        self.norm, self.head = nn.RMSNorm(width).requires_grad_(False), frozen_linear(width, vocabulary_size)
        angles = torch.outer(torch.arange(max_length), 500000 ** (-torch.arange(0, width // head_count, 2) / (width // head_count)))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        text_length = x.shape[1]
        y = self.words(x)
        for block in self.blocks:
            y = block(y, self.cos[:text_length], self.sin[:text_length])
        return self.head(self.norm(y))


def with_loss_and_random_images(model, batch, image_size, class_count, device, has_label_per_pixel=False):
    """(model with its loss, (random images, random labels))."""
    model = model.to(device, memory_format=torch.channels_last)
    x = torch.randn(batch, 3, image_size, image_size, device=device).to(memory_format=torch.channels_last)
    shape = (batch, image_size, image_size) if has_label_per_pixel else (batch,)
    return WithLoss(model), (x, torch.randint(class_count, shape, device=device))


def convert_frozen_to_bf16(model):
    """Converts the frozen parameters to bfloat16; returns the model."""
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.bfloat16()
    return model


def with_loss_and_random_texts(model, batch, text_length, vocabulary_size, device):
    """(model with its loss, (random texts of `text_length` tokens, random next tokens))."""
    texts, next_tokens = (torch.randint(vocabulary_size, (batch, text_length), device=device) for _ in range(2))
    return WithLoss(model.to(device)), (texts, next_tokens)


def resnet50(device="cuda", batch=128):
    return with_loss_and_random_images(ResNet(), batch, 224, 1000, device)


def gpt2_small(device="cuda", batch=8):
    return with_loss_and_random_texts(GPT2(), batch, 1024, 50304, device)


def gpt2_medium(device="cuda", batch=8):
    return with_loss_and_random_texts(GPT2(24, 1024, 16), batch, 1024, 50304, device)


def vit_b16(device="cuda", batch=128):
    return with_loss_and_random_images(ViT(), batch, 224, 1000, device)


def swin_t(device="cuda", batch=128):
    return with_loss_and_random_images(Swin(), batch, 224, 1000, device)


def convnext_t(device="cuda", batch=128):
    return with_loss_and_random_images(ConvNeXt(), batch, 224, 1000, device)


def llama_lora(device="cuda", batch=8):
    return with_loss_and_random_texts(convert_frozen_to_bf16(Llama()), batch, 1024, 128256, device)


def unet(device="cuda", batch=16):
    return with_loss_and_random_images(UNet(), batch, 256, 2, device, has_label_per_pixel=True)


MODELS = {make.__name__: make for make in (resnet50, gpt2_small, gpt2_medium, vit_b16, swin_t, convnext_t, llama_lora, unet)}
