"""Swin-T (Liu et al. 2021): attention within windows of 7 x 7 pixels, which are shifted by 3 pixels in every second block."""

import torch
from torch import nn

WINDOW_SIDE, WINDOW_SHIFT = 7, 3  # height and width of a window, and its shift, in pixels
WINDOW_PIXELS = WINDOW_SIDE * WINDOW_SIDE  # number of pixels of a window


class WindowAttention(nn.Module):
    """Attention within the windows of images of size x size pixels, channels last."""

    def __init__(self, width, head_count, image_size, is_shifted):
        super().__init__()
        self.heads, self.shift = head_count, is_shifted
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * WINDOW_SIDE - 1) ** 2, head_count))
        positions = torch.stack(torch.meshgrid(torch.arange(WINDOW_SIDE), torch.arange(WINDOW_SIDE), indexing="ij")).flatten(1)
        offsets = positions[:, :, None] - positions[:, None] + WINDOW_SIDE - 1
        self.register_buffer("index", (offsets[0] * (2 * WINDOW_SIDE - 1) + offsets[1]).flatten())
        self.register_buffer("mask", shifted_window_mask(image_size) if is_shifted else None)

    def forward(self, x):
        b, h, w, c = x.shape
        if self.shift:
            x = x.roll((-WINDOW_SHIFT, -WINDOW_SHIFT), (1, 2))
        x = x.view(b, h // WINDOW_SIDE, WINDOW_SIDE, w // WINDOW_SIDE, WINDOW_SIDE, c).transpose(2, 3).reshape(-1, WINDOW_PIXELS, c)
        q, k, v = self.qkv(x).view(-1, WINDOW_PIXELS, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5 @ k.transpose(-2, -1)
                  + self.bias[self.index].view(WINDOW_PIXELS, WINDOW_PIXELS, self.heads).permute(2, 0, 1))
        if self.shift:
            scores = (scores.view(b, -1, self.heads, WINDOW_PIXELS, WINDOW_PIXELS)
                      + self.mask[:, None]).view(-1, self.heads, WINDOW_PIXELS, WINDOW_PIXELS)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, WINDOW_PIXELS, c))
        y = y.view(b, h // WINDOW_SIDE, w // WINDOW_SIDE, WINDOW_SIDE, WINDOW_SIDE, c).transpose(2, 3).reshape(b, h, w, c)
        return y.roll((WINDOW_SHIFT, WINDOW_SHIFT), (1, 2)) if self.shift else y


def shifted_window_mask(image_size):
    """A mask with -100 for pixels of a shifted window that are not neighbours in the image."""
    region_numbers = torch.zeros(image_size)  # pixels with the same number are neighbours
    region_numbers[-WINDOW_SIDE:-WINDOW_SHIFT], region_numbers[-WINDOW_SHIFT:] = 1, 2
    windows_per_side = image_size // WINDOW_SIDE
    region_numbers = (3 * region_numbers[:, None] + region_numbers).view(windows_per_side, WINDOW_SIDE, windows_per_side, WINDOW_SIDE)
    region_numbers = region_numbers.transpose(1, 2).reshape(-1, WINDOW_PIXELS)
    return torch.where(region_numbers[:, None] == region_numbers[:, :, None], 0.0, -100.0)


class WindowBlock(nn.Module):
    def __init__(self, width, head_count, image_size, is_shifted):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), WindowAttention(width, head_count, image_size, is_shifted), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class PatchMerging(nn.Module):
    """Merges four neighbouring pixels into one with twice the channels."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        b, h, w, c = x.shape
        return self.reduction(self.norm(x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 4, 2, 5).reshape(b, h // 2, w // 2, 4 * c)))


class Swin(nn.Module):
    def __init__(self, blocks_per_stage=(2, 2, 6, 2), width=96, head_count=3, image_size=224, class_count=1000):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        stages, image_size = [], image_size // 4
        for stage, block_count in enumerate(blocks_per_stage):
            stages += [PatchMerging(width << stage - 1)] if stage else []
            stages += [WindowBlock(width << stage, head_count << stage, image_size >> stage,
                                   block_index % 2 == 1 and image_size >> stage > WINDOW_SIDE)
                       for block_index in range(block_count)]
        self.blocks = nn.Sequential(*stages)
        width <<= len(blocks_per_stage) - 1
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, class_count)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.first(self.patches(x).permute(0, 2, 3, 1)))).mean((1, 2)))
