// Where the i-th element of a tensor in memory lies, for kernels that take results one by one.
#pragma once

#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {

struct laid_out {
  dims shape, stride;

  laid_out(const dims& of, memory_order order)
      : shape(of), stride(strides_of({{}, of, dtype::f32, role::activation, order})) {}
  __device__ std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * stride.n + c * stride.c + h * stride.h + w * stride.w;
  }
};

// Index: 32 bits where the elements can be counted so, since divisions of 64 bits are slow.
template <class Index>
__device__ dims position_in(Index i, const dims& shape, bool channels_last) {
  dims at;
  const auto next = [&](std::int64_t extent) {
    const Index rest = i / static_cast<Index>(extent);
    const Index here = i - rest * static_cast<Index>(extent);
    i = rest;
    return static_cast<std::int64_t>(here);
  };
  if (channels_last) at.c = next(shape.c);
  at.w = next(shape.w);
  at.h = next(shape.h);
  if (!channels_last) at.c = next(shape.c);
  at.n = static_cast<std::int64_t>(i);
  return at;
}

// Calls launch(Index{}) with the narrowest type that counts so many.
template <class Launch>
void with_index_of(std::int64_t count, Launch launch) {
  if (count < std::int64_t{1} << 31) return launch(std::uint32_t{});
  launch(std::uint64_t{});
}

template <class T>
__device__ float value_at(const T* from) {
  float value[1];
  unpack<T, 1>(load<1>(from), value);
  return value[0];
}
template <class T>
__device__ void put(T* to, float value) {
  const float one[1] = {value};
  store<1>(to, pack<T, 1>(one));
}

}  // namespace um::kernels
