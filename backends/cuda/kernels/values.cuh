// Vectors of elements in registers: accesses of 16 bytes, and conversion to and from fp32, in which kernels
// compute.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "core/tensor.hpp"

namespace um::kernels {

using bf16 = __nv_bfloat16;

// The upper bound of ReLU6.
inline constexpr float relu_cap = 6.0F;

template <int Bytes>
struct bits_of;
template <>
struct bits_of<1> {
  using type = std::uint8_t;
};
template <>
struct bits_of<2> {
  using type = std::uint16_t;
};
template <>
struct bits_of<4> {
  using type = std::uint32_t;
};
template <>
struct bits_of<8> {
  using type = uint2;
};
template <>
struct bits_of<16> {
  using type = uint4;
};
template <>
struct bits_of<32> {
  struct type {
    uint4 low, high;
  };
};

// N neighbouring elements as they lie in memory.
template <class T, int N>
using bits = typename bits_of<static_cast<int>(sizeof(T)) * N>::type;

// 16 bytes hold this many elements of T.
template <class T>
inline constexpr int vector_of = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ bits<T, N> load(const T* from) {
  return *reinterpret_cast<const bits<T, N>*>(from);
}
template <int N, class T>
__device__ void store(T* to, const bits<T, N>& value) {
  *reinterpret_cast<bits<T, N>*>(to) = value;
}

template <class T, int N>
__device__ void unpack(const bits<T, N>& from, float (&to)[N]) {
  if constexpr (sizeof(T) * N == 2) {
    to[0] = __uint_as_float(std::uint32_t{from} << 16);
  } else {
    std::uint32_t words[sizeof(T) * N / 4];
    memcpy(words, &from, sizeof words);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (sizeof(T) == 4) {
        to[i] = __uint_as_float(words[i]);
      } else {
        to[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U);
      }
    }
  }
}

// Rounds to nearest even where T is shorter.
template <class T, int N>
__device__ bits<T, N> pack(const float (&from)[N]) {
  bits<T, N> to;
  if constexpr (sizeof(T) == 4) {
    memcpy(&to, from, sizeof to);
  } else if constexpr (N == 1) {
    const bf16 rounded = __float2bfloat16_rn(from[0]);
    memcpy(&to, &rounded, sizeof to);
  } else {
    __nv_bfloat162 pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N; i += 2) pairs[i / 2] = __floats2bfloat162_rn(from[i], from[i + 1]);
    memcpy(&to, pairs, sizeof to);
  }
  return to;
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

// Loads an element for each of N neighbouring channels. `from` may be aligned to 4 bytes alone.
template <int N>
__device__ void load_channels(const float* from, float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = __ldg(from + i);
}

// Calls launch(T{}) with the element type.
template <class Launch>
void with_type(dtype type, Launch launch) {
  if (type == dtype::f32) return launch(float{});
  if (type == dtype::bf16) return launch(bf16{});
  throw std::invalid_argument("umbench's kernels compute on f32 and bf16, not on " +
                              std::string(to_text(type)));
}

}  // namespace um::kernels
