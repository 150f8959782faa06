"""Current networks for benchmarks/torch_steps.py in plain PyTorch: each function returns (model, inputs) in bfloat16.

Widths and depths are those of the published models; weights are random. Language models return their loss.
"""

import torch
from torch import nn
from torch.nn import functional as F

from umbench.torch.bench.models import ResNet

BF16 = torch.bfloat16


# --- images ---

def resnet50(batch=128):
    return ResNet().to(BF16), random_images(batch)


def vgg16(batch=64):
    layers, in_channels = [], 3
    for out_channels in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        layers += [nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.ReLU()] if out_channels else [nn.MaxPool2d(2)]
        in_channels = out_channels or in_channels
    layers += [nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers).to(BF16), random_images(batch)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of an image."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down, self.scale = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


def convnext_tiny(batch=64):
    layers, in_channels = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96)], 96
    for width, block_count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if width != in_channels:
            layers += [ChannelNorm(in_channels), nn.Conv2d(in_channels, width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(block_count)]
        in_channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768), nn.Linear(768, 1000)).to(BF16), random_images(batch)


class InvertedBottleneck(nn.Module):
    """A block of EfficientNet: expansion, depthwise convolution, squeeze and excite, projection."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, expansion):
        super().__init__()
        width = in_channels * expansion
        self.expand = nn.Sequential(nn.Conv2d(in_channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU()) if expansion > 1 else nn.Identity()
        self.depth = nn.Sequential(nn.Conv2d(width, width, kernel_size, stride, kernel_size // 2, groups=width, bias=False), nn.BatchNorm2d(width), nn.SiLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, in_channels // 4, 1), nn.SiLU(), nn.Conv2d(in_channels // 4, width, 1), nn.Sigmoid())
        self.project = nn.Sequential(nn.Conv2d(width, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels))
        self.adds = stride == 1 and in_channels == out_channels

    def forward(self, x):
        y = self.depth(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.adds else y


def efficientnet_b0(batch=128):
    layers, in_channels = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()], 32
    for out_channels, block_count, kernel_size, stride, expansion in ((16, 1, 3, 1, 1), (24, 2, 3, 2, 6), (40, 2, 5, 2, 6),
                                                                      (80, 3, 3, 2, 6), (112, 3, 5, 1, 6), (192, 4, 5, 2, 6), (320, 1, 3, 1, 6)):
        for block_index in range(block_count):
            layers.append(InvertedBottleneck(in_channels, out_channels, kernel_size, stride if block_index == 0 else 1, expansion))
            in_channels = out_channels
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
               nn.Linear(1280, 1000)]
    return nn.Sequential(*layers).to(BF16), random_images(batch)


class UNet(nn.Module):
    """A diffusion U-Net: residual blocks with the time step added, attention at the two coarsest levels; returns its loss."""

    def __init__(self, width=128, width_factors=(1, 2, 2, 4), channels=4):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.width, self.first = width, nn.Conv2d(channels, width, 3, padding=1)
        widths, in_channels, skip_widths = [width * f for f in width_factors], width, [width]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, level_width in enumerate(widths):
            for _ in range(2):
                self.down.append(ResidualBlock(in_channels, level_width, 4 * width, has_attention=level >= 2))
                in_channels = level_width
                skip_widths.append(level_width)
            if level + 1 < len(widths):
                self.down.append(nn.Conv2d(level_width, level_width, 3, 2, 1))
                skip_widths.append(level_width)
        self.middle = ResidualBlock(in_channels, in_channels, 4 * width, has_attention=True)
        for level, level_width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(ResidualBlock(in_channels + skip_widths.pop(), level_width, 4 * width, has_attention=level >= 2))
                in_channels = level_width
            if level:
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(level_width, level_width, 3, padding=1)))
        self.last = nn.Sequential(nn.GroupNorm(32, in_channels), nn.SiLU(), nn.Conv2d(in_channels, channels, 3, padding=1))

    def forward(self, x, noise, step):
        phase = step[:, None] * torch.exp(-torch.arange(self.width // 2, device=x.device) / (self.width // 2) * 9.2)
        time_embedding = self.time(torch.cat([phase.sin(), phase.cos()], 1).to(x.dtype))
        h = self.first(x)
        skips = [h]
        for layer in self.down:
            h = layer(h, time_embedding) if isinstance(layer, ResidualBlock) else layer(h)
            skips.append(h)
        h = self.middle(h, time_embedding)
        for layer in self.up:
            h = layer(torch.cat([h, skips.pop()], 1), time_embedding) if isinstance(layer, ResidualBlock) else layer(h)
        return F.mse_loss(self.last(h).float(), noise.float())


class ResidualBlock(nn.Module):
    """Two convolutions of an image, with `time_embedding` of the time step added between them, and attention between pixels if wanted."""

    def __init__(self, in_channels, out_channels, time_width, has_attention):
        super().__init__()
        self.one = nn.Sequential(nn.GroupNorm(32, in_channels), nn.SiLU(), nn.Conv2d(in_channels, out_channels, 3, padding=1))
        self.time = nn.Linear(time_width, out_channels)
        self.two = nn.Sequential(nn.GroupNorm(32, out_channels), nn.SiLU(), nn.Conv2d(out_channels, out_channels, 3, padding=1))
        self.same = nn.Conv2d(in_channels, out_channels, 1) if in_channels != out_channels else nn.Identity()
        self.norm, self.qkv, self.out = (nn.GroupNorm(32, out_channels), nn.Linear(out_channels, 3 * out_channels), nn.Linear(out_channels, out_channels)) if has_attention else (None,) * 3

    def forward(self, x, time_embedding):
        y = self.two(self.one(x) + self.time(F.silu(time_embedding))[:, :, None, None]) + self.same(x)
        if self.norm is None:
            return y
        b, c, h, w = y.shape
        q, k, v = self.qkv(self.norm(y).flatten(2).transpose(1, 2)).view(b, h * w, 3, c // 64, 64).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return y + self.out(a).transpose(1, 2).reshape(b, c, h, w)


def unet(batch=16):
    image = torch.randn(batch, 4, 64, 64, dtype=BF16)
    return UNet().to(BF16), (image, torch.randn_like(image), torch.randint(0, 1000, (batch,)))


def random_images(batch, image_size=224):
    return (torch.randn(batch, 3, image_size, image_size, dtype=BF16),)


# --- transformers ---

class Attention(nn.Module):
    def __init__(self, width, head_count, is_causal, dropout=0.0, queries_per_key=1, has_bias=True, has_rotary_positions=False):
        super().__init__()
        self.heads, self.causal, self.dropout, self.queries_per_key, self.rotary = head_count, is_causal, dropout, queries_per_key, has_rotary_positions
        self.q, self.kv, self.out = nn.Linear(width, width, has_bias), nn.Linear(width, 2 * width // queries_per_key, has_bias), nn.Linear(width, width, has_bias)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.heads // self.queries_per_key, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = with_rotary_positions(q), with_rotary_positions(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout if self.training else 0.0,
                                           enable_gqa=self.queries_per_key > 1)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


def with_rotary_positions(queries_or_keys):
    """Queries or keys, each rotated by an angle that grows with its position in the text."""
    n, d = queries_or_keys.shape[-2:]
    angle = torch.arange(n, device=queries_or_keys.device)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, device=queries_or_keys.device) / d)
    cos, sin = angle.cos().repeat(1, 2).to(queries_or_keys.dtype), angle.sin().repeat(1, 2).to(queries_or_keys.dtype)
    left, right = queries_or_keys.chunk(2, -1)
    return queries_or_keys * cos + torch.cat([-right, left], -1) * sin


class TransformerBlock(nn.Module):
    def __init__(self, width, head_count, is_causal, dropout=0.0):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, head_count, is_causal, dropout), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """Embeddings, blocks, and a head that may share the weights of the embeddings. Returns the loss of the next token, in float32."""

    def __init__(self, vocabulary_size, max_length, width, blocks, last_norm, has_tied_embeddings=True, dropout=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary_size, width), nn.Embedding(max_length, width) if max_length else None
        self.drop, self.blocks, self.norm, self.head = nn.Dropout(dropout), nn.ModuleList(blocks), last_norm, nn.Linear(width, vocabulary_size, bias=False)
        if has_tied_embeddings:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def random_tokens(batch, text_length, vocabulary_size):
    return (torch.randint(0, vocabulary_size, (batch, text_length)),)


def gpt2_medium(batch=8):
    blocks = [TransformerBlock(1024, 16, True, 0.1) for _ in range(24)]
    return LanguageModel(50304, 1024, 1024, blocks, nn.LayerNorm(1024), dropout=0.1).to(BF16), random_tokens(batch, 1024, 50304)


def bert_large(batch=16):
    blocks = [TransformerBlock(1024, 16, False, 0.1) for _ in range(24)]
    return LanguageModel(30528, 512, 1024, blocks, nn.LayerNorm(1024), dropout=0.1).to(BF16), random_tokens(batch, 512, 30528)


class GatedMlp(nn.Module):
    def __init__(self, width, hidden_width):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, hidden_width, False), nn.Linear(width, hidden_width, False), nn.Linear(hidden_width, width, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MixtureOfExperts(nn.Module):
    """Expert-choice routing: every expert takes the tokens with the largest weights for it, the same number for each expert."""

    def __init__(self, width, hidden_width, expert_count):
        super().__init__()
        self.route = nn.Linear(width, expert_count, False)
        self.up, self.down = nn.Parameter(torch.randn(expert_count, width, hidden_width) * 0.02), nn.Parameter(torch.randn(expert_count, hidden_width, width) * 0.02)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        token_weights, token_indices = self.route(tokens).softmax(-1).t().topk(2 * tokens.shape[0] // self.up.shape[0], -1)
        y = torch.bmm(F.silu(torch.bmm(tokens[token_indices], self.up)), self.down) * token_weights[..., None]
        return torch.zeros_like(tokens).index_add(0, token_indices.flatten(), y.flatten(0, 1)).view_as(x)


class LlamaBlock(nn.Module):
    def __init__(self, width, head_count, queries_per_key, feed_forward):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(width), Attention(width, head_count, True, queries_per_key=queries_per_key, has_bias=False, has_rotary_positions=True)
        self.norm2, self.mlp = nn.RMSNorm(width), feed_forward

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def llama_1b(batch=2):
    blocks = [LlamaBlock(2048, 32, 4, GatedMlp(2048, 8192)) for _ in range(16)]
    return LanguageModel(128256, 0, 2048, blocks, nn.RMSNorm(2048)).to(BF16), random_tokens(batch, 2048, 128256)


def mixture(batch=4):
    blocks = [LlamaBlock(1024, 16, 1, MixtureOfExperts(1024, 2816, 8)) for _ in range(12)]
    return LanguageModel(32000, 0, 1024, blocks, nn.RMSNorm(1024), has_tied_embeddings=False).to(BF16), random_tokens(batch, 2048, 32000)


class LoraLinear(nn.Module):
    """A frozen linear layer plus a trained product of low rank (LoRA)."""

    def __init__(self, linear, rank=16):
        super().__init__()
        self.layer = linear
        self.a, self.b = nn.Linear(linear.in_features, rank, False), nn.Linear(rank, linear.out_features, False)

    def forward(self, x):
        return self.layer(x) + self.b(self.a(x))


def llama_lora(batch=2):
    model, inputs = llama_1b(batch)
    model.requires_grad_(False)
    for block in model.blocks:
        block.attention.q, block.attention.kv = LoraLinear(block.attention.q), LoraLinear(block.attention.kv)
    return model.to(BF16), inputs


class VisionTransformer(nn.Module):
    def __init__(self, width=768, block_count=12, head_count=12):
        super().__init__()
        self.patch, self.first = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.zeros(1, 1, width))
        self.places, self.blocks = nn.Parameter(torch.zeros(1, 197, width)), nn.Sequential(*[TransformerBlock(width, head_count, False) for _ in range(block_count)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places)
        return self.head(self.norm(x)[:, 0])


def vit_b16(batch=128):
    return VisionTransformer().to(BF16), random_images(batch)


PUBLISHED = (resnet50, vgg16, convnext_tiny, efficientnet_b0, unet, vit_b16, gpt2_medium, bert_large, llama_1b, llama_lora)
HELD_OUT = (mixture,)  # networks to which no cost was fitted
