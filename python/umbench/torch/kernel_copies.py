"""Copies between the GPU and managed memory whose home is the host, by a kernel that leaves most of the GPU to others.

The driver copies managed memory as from device to device, by each of its calls (driver 580): no kernel runs beside that."""

import torch
import triton
import triton.language as tl

BLOCKS, WARPS = 8, 16  # 4 and 16 are as fast or slower (results/torch/copies_h100.jsonl)
WORDS = 4096           # of 8 bytes that a block has under way


@triton.jit
def umbench_copy(target, source, count, WORDS: tl.constexpr):
    for begin in range(tl.program_id(0) * WORDS, count, tl.num_programs(0) * WORDS):
        at = begin + tl.arange(0, WORDS)
        tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


def try_copy(target, source):
    """Copies a flat tensor on the current stream. False, and nothing is copied, where it does not consist of whole words."""
    if source.nbytes % 8 or source.data_ptr() % 8 or target.data_ptr() % 8:
        return False
    umbench_copy[(BLOCKS,)](target.view(torch.int64), source.view(torch.int64), source.nbytes // 8, WORDS=WORDS, num_warps=WARPS)
    return True
