#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {
namespace {

struct packed_form {
  divisor channels, block, packed_channels, rows, columns;
  dims plain;
  int height, width, pad_h, pad_w;

  explicit packed_form(const packing& form)
      : channels(form.plain_shape.c),
        block(form.block),
        packed_channels(form.packed_shape.c),
        rows(form.packed_shape.h),
        columns(form.packed_shape.w),
        plain(strides_of({{}, form.plain_shape, form.type, role::activation, form.order})),
        height(static_cast<int>(form.plain_shape.h)),
        width(static_cast<int>(form.plain_shape.w)),
        pad_h(static_cast<int>(form.pad_h)),
        pad_w(static_cast<int>(form.pad_w)) {}

  // Returns where an element of the packed tensor comes from, or -1 if it is a zero.
  __device__ std::int64_t source_offset(std::uint32_t n, std::uint32_t channel, std::uint32_t i,
                                        std::uint32_t j) const {
    std::uint32_t position = channel;
    const std::uint32_t c = channels.take_remainder(position);
    const std::uint32_t b = block.take_remainder(position);
    const int row = static_cast<int>(i * block.value + position) - pad_h;
    const int column = static_cast<int>(j * block.value + b) - pad_w;
    if (position >= block.value || row < 0 || row >= height || column < 0 || column >= width) return -1;
    return n * plain.n + c * plain.c + row * plain.h + column * plain.w;
  }
};

// A thread takes N neighbours in memory: channels in nhwc, one element in nchw.
template <class T, int N, bool ChannelsLast>
__global__ void __launch_bounds__(block_threads)
    pack_elements(const T* from, T* to, std::uint32_t groups, divisor channel_groups, packed_form form) {
  for (auto g = thread_index<std::uint32_t>(); g < groups; g += grid_stride<std::uint32_t>()) {
    std::uint32_t n = g, channel = 0, i = 0, j = 0;
    if constexpr (ChannelsLast) {
      channel = channel_groups.take_remainder(n) * N;
      j = form.columns.take_remainder(n);
      i = form.rows.take_remainder(n);
    } else {
      j = form.columns.take_remainder(n);
      i = form.rows.take_remainder(n);
      channel = form.packed_channels.take_remainder(n);
    }
    float values[N];
#pragma unroll
    for (int v = 0; v < N; ++v) {
      const std::int64_t at = form.source_offset(n, channel + v, i, j);
      values[v] = at < 0 ? 0.0F : static_cast<float>(from[at]);
    }
    store<N>(to + std::int64_t{g} * N, pack<T, N>(values));
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    unpack_elements(const T* packed, float* dw, std::uint32_t count, dims plain, dims to, dims from,
                    int block, bool add) {
  for (auto g = thread_index<std::uint32_t>(); g < count; g += grid_stride<std::uint32_t>()) {
    std::uint32_t rest = g;
    const auto s = static_cast<int>(rest % plain.w);
    rest /= static_cast<std::uint32_t>(plain.w);
    const auto r = static_cast<int>(rest % plain.h);
    rest /= static_cast<std::uint32_t>(plain.h);
    const auto c = static_cast<std::int64_t>(rest % plain.c);
    const auto k = static_cast<std::int64_t>(rest / plain.c);
    const std::int64_t channel = ((r % block) * block + s % block) * plain.c + c;
    const float value = static_cast<float>(
        packed[k * from.n + channel * from.c + (r / block) * from.h + (s / block) * from.w]);
    float& target = dw[k * to.n + c * to.c + r * to.h + s * to.w];
    target = add ? target + value : value;
  }
}

template <class T, int N, bool ChannelsLast>
void launch_pack(launch_site where, const void* from, void* to, const packing& form) {
  const std::int64_t groups = element_count(form.packed_shape) / N;
  const divisor channel_groups(std::max<std::int64_t>(form.packed_shape.c / N, 1));
  launch(where, &pack_elements<T, N, ChannelsLast>, grid_for(where, groups), block_threads,
         static_cast<const T*>(from), static_cast<T*>(to), static_cast<std::uint32_t>(groups), channel_groups,
         packed_form(form));
}

}  // namespace

void pack_channels(launch_site where, const void* from, void* to, const packing& form) {
  with_type(form.type, [&](auto type) {
    using T = decltype(type);
    if (form.order == memory_order::nchw) {
      launch_pack<T, 1, false>(where, from, to, form);
    } else if (form.packed_shape.c % 4 == 0 && aligned_to(4 * sizeof(T), to)) {
      launch_pack<T, 4, true>(where, from, to, form);
    } else {
      launch_pack<T, 1, true>(where, from, to, form);
    }
  });
}

void unpack_filter_gradient(launch_site where, const void* packed, float* dw, const packing& form, bool add) {
  const std::int64_t count = element_count(form.plain_shape);
  with_type(form.type, [&](auto type) {
    using T = decltype(type);
    launch(where, &unpack_elements<T>, grid_for(where, count), block_threads, static_cast<const T*>(packed),
           dw, static_cast<std::uint32_t>(count), form.plain_shape,
           strides_of({{}, form.plain_shape, dtype::f32, role::parameter, form.order}),
           strides_of({{}, form.packed_shape, form.type, role::parameter, form.order}),
           static_cast<int>(form.block), add);
  });
}

}  // namespace um::kernels
