// Direct convolutions share these: tiles of results, a tile's inputs (its patch) in shared memory, and
// products of small matrices on tensor cores (mma.sync).
#pragma once

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {

// A warp computes D[16][8] += A[16][depth] B[depth][8] of f32 rounded to tf32 (depth 8) or of bf16 (16). Lane
// 4 g + t holds rows g and g + 8 of A, column g of B, and of D rows g and g + 8 in columns 2 t and 2 t + 1
// (PTX ISA, "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16"). The caller may order the depths in any
// way that is the same for A and B.
template <class T>
inline constexpr int mma_depth = sizeof(T) == 4 ? 8 : 16;

// Devices before compute capability 8.0 never run it.
template <class T>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  __trap();
#endif
}

__device__ inline std::uint32_t to_tf32(float value) {
  std::uint32_t rounded = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
#endif
  return rounded;
}

// A register of a fragment holds one f32 as tf32, or two bf16.
__device__ inline std::uint32_t fragment_word(float value, float) {
  return to_tf32(value);
}
__device__ inline std::uint32_t fragment_word(bf16 low, bf16 high) {
  return __bfloat16_as_ushort(low) | std::uint32_t{__bfloat16_as_ushort(high)} << 16;
}
template <class T>
inline constexpr int factors_of_word = 4 / static_cast<int>(sizeof(T));

// All tensors are nhwc. A tile has `rows` x 32 results of one image.
inline constexpr int tile_columns = 32;
struct direct_form {
  int height, width, channels, taps_h, taps_w;  // extents of x and w
  int result_height, result_width, result_channels;
  int stride_h, stride_w, pad_h, pad_w;
  int rows, patch_rows, patch_columns;
  std::int64_t tiles;
  divisor tile_rows, tiles_across;

  direct_form(const direct_convolution& of, int rows_)
      : height(static_cast<int>(of.x.h)),
        width(static_cast<int>(of.x.w)),
        channels(static_cast<int>(of.x.c)),
        taps_h(static_cast<int>(of.w.h)),
        taps_w(static_cast<int>(of.w.w)),
        result_height(static_cast<int>(of.y.h)),
        result_width(static_cast<int>(of.y.w)),
        result_channels(static_cast<int>(of.y.c)),
        stride_h(of.attributes.stride_h),
        stride_w(of.attributes.stride_w),
        pad_h(of.attributes.pad_h),
        pad_w(of.attributes.pad_w),
        rows(rows_),
        patch_rows((rows_ - 1) * of.attributes.stride_h + static_cast<int>(of.w.h)),
        patch_columns((tile_columns - 1) * of.attributes.stride_w + static_cast<int>(of.w.w)),
        tiles(of.y.n * divide_up(of.y.h, rows_) * divide_up(of.y.w, tile_columns)),
        tile_rows(divide_up(of.y.h, rows_)),
        tiles_across(divide_up(of.y.w, tile_columns)) {}

  int depth() const { return channels * taps_h * taps_w; }
  int patch_elements() const { return patch_rows * patch_columns * channels; }
  // Returns the patch's offset of the input that depth k multiplies. k counts [row][column][channel].
  __device__ int patch_offset(int k) const {
    const int row = taps_w * channels;
    return k / row * patch_columns * channels + k % row;
  }
  int patch_bytes() const { return patch_elements() * 4; }
};

// Chooses the tallest tiles, of `min_rows` to 32 rows, whose patch takes at most `bytes`, else those of
// `min_rows`.
inline direct_form direct_form_within(const direct_convolution& of, int min_rows, int bytes) {
  int rows = 32;
  while (rows > min_rows && direct_form(of, rows).patch_bytes() > bytes) rows /= 2;
  return {of, rows};
}

// An image has fewer than 2^31 elements, and channels come in whole groups.
inline bool direct_applies_to(const direct_convolution& of) {
  constexpr std::int64_t max_channels = 4, group = 32;
  return of.x.c <= max_channels && of.y.c % group == 0 && of.x.c * of.x.h * of.x.w < std::int64_t{1} << 31;
}

struct tile_position {
  int image, row, column;  // place of its first result
};

__device__ inline tile_position position_of(const direct_form& f, std::int64_t tile) {
  auto rest = static_cast<std::uint32_t>(tile);
  const auto column = static_cast<int>(f.tiles_across.take_remainder(rest));
  const auto row = static_cast<int>(f.tile_rows.take_remainder(rest));
  return {static_cast<int>(rest), row * f.rows, column * tile_columns};
}

// Loads the inputs of a tile, and zeros outside of the image, as words. A word of bf16 joins an element and
// the one `apart` elements behind it in the patch's row. A warp reads runs of a row.
template <class T>
__device__ void load_patch(const direct_form& f, const T* x, const tile_position& at, int apart,
                           std::uint32_t* patch) {
  const int top = at.row * f.stride_h - f.pad_h, left = (at.column * f.stride_w - f.pad_w) * f.channels;
  const int run = f.patch_columns * f.channels, row_elements = f.width * f.channels;
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  const T* const image = x + std::int64_t{at.image} * f.height * row_elements;
  for (int r = static_cast<int>(threadIdx.x) / warp_threads; r < f.patch_rows; r += warps) {
    const bool inside = top + r >= 0 && top + r < f.height;
    const T* const from = image + (top + r) * row_elements + left;
    const auto element = [&](int e) {
      return inside && left + e >= 0 && left + e < row_elements && e < run ? from[e] : T{};
    };
    for (int e = static_cast<int>(threadIdx.x) % warp_threads; e < run; e += warp_threads)
      patch[r * run + e] = fragment_word(element(e), factors_of_word<T> == 1 ? T{} : element(e + apart));
  }
}

}  // namespace um::kernels
