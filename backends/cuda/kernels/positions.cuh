// Coordinates of the i-th element in memory, for kernels that compute results one by one.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {

struct tensor_strides {
  dims shape, stride;

  tensor_strides(const dims& of, memory_order order)
      : shape(of), stride(strides_of({{}, of, dtype::f32, role::activation, order})) {}
  __device__ std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * stride.n + c * stride.c + h * stride.h + w * stride.w;
  }
};

// Divides as `divisor` does, but without a limit on the numbers.
struct wide_divisor {
  std::uint64_t value;

  explicit wide_divisor(std::int64_t number) : value(static_cast<std::uint64_t>(number)) {}
  __device__ std::uint64_t take_remainder(std::uint64_t& dividend) const {
    const std::uint64_t whole = dividend;
    dividend = whole / value;
    return whole - dividend * value;
  }
};

// `Index` has 32 bits if all positions fit, since 64-bit divisions are slow.
template <class Index>
class position_finder {
 public:
  // A position has `vector` neighbouring channels if channels are last, else one element.
  position_finder(const dims& shape, memory_order order, int vector = 1)
      : channels_(shape.c / vector),
        rows_(shape.h),
        columns_(shape.w),
        vector_(vector),
        channels_last_(order == memory_order::nhwc) {}

  __device__ dims operator()(Index i) const {
    dims at;
    if (channels_last_) at.c = take_coordinate(channels_, i) * vector_;
    at.w = take_coordinate(columns_, i);
    at.h = take_coordinate(rows_, i);
    if (!channels_last_) at.c = take_coordinate(channels_, i);
    at.n = static_cast<std::int64_t>(i);
    return at;
  }

 private:
  using extent = std::conditional_t<sizeof(Index) == 4, divisor, wide_divisor>;

  __device__ static std::int64_t take_coordinate(const extent& along, Index& i) {
    return static_cast<std::int64_t>(along.take_remainder(i));
  }

  extent channels_, rows_, columns_;
  int vector_;
  bool channels_last_;
};

}  // namespace um::kernels
