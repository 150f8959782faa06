"""Copies between the GPU and managed memory that stays on the host, by a kernel that leaves most of the GPU to other kernels.

The driver copies managed memory as from device to device, by each of its calls (driver 580): no kernel runs beside that."""

import torch
import triton
import triton.language as tl

BLOCKS, WARPS = 8, 16  # 4 and 16 are as fast or slower (results/torch/copies_h100.jsonl)
WORDS_AT_ONCE = 4096   # words of 8 bytes that a block has in flight


@triton.jit
def umbench_copy(target_words, source_words, word_count, WORDS_AT_ONCE: tl.constexpr):
    for first_word in range(tl.program_id(0) * WORDS_AT_ONCE, word_count, tl.num_programs(0) * WORDS_AT_ONCE):
        word_indices = first_word + tl.arange(0, WORDS_AT_ONCE)
        tl.store(target_words + word_indices, tl.load(source_words + word_indices, mask=word_indices < word_count), mask=word_indices < word_count)


class Int64Pointer:
    """Memory at an address, in the form that Triton accepts."""

    dtype = torch.int64

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address


def copy_bytes(target_address, source_address, byte_count):
    """Copies on the current stream between two addresses. These and the number of bytes are multiples of 8."""
    umbench_copy[(BLOCKS,)](Int64Pointer(target_address), Int64Pointer(source_address), byte_count // 8, WORDS_AT_ONCE=WORDS_AT_ONCE, num_warps=WARPS)
