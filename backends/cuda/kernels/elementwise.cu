#include "backends/cuda/kernels/launch.cuh"

namespace um::kernels {
namespace {

// out[i] = f(a[i], b[i]). a, b and out may be the same memory. Four elements at a time where all
// three are aligned; what is left over, one by one.
template <class F>
__global__ void __launch_bounds__(block_threads)
    map_vectors(const float* a, const float* b, float* out, std::int64_t count, F f) {
  const std::int64_t vectors = count / 4;
  const auto* a4 = reinterpret_cast<const float4*>(a);
  const auto* b4 = reinterpret_cast<const float4*>(b);
  auto* out4 = reinterpret_cast<float4*>(out);
  const auto first = thread_index<std::int64_t>();
  for (std::int64_t i = first; i < vectors; i += grid_stride<std::int64_t>()) {
    const float4 u = a4[i];
    const float4 v = b4[i];
    out4[i] = make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w));
  }
  if (first < count % 4) {
    const std::int64_t i = vectors * 4 + first;
    out[i] = f(a[i], b[i]);
  }
}

template <class F>
__global__ void __launch_bounds__(block_threads)
    map_scalars(const float* a, const float* b, float* out, std::int64_t count, F f) {
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    out[i] = f(a[i], b[i]);
  }
}

template <class F>
void map(launch_site where, const float* a, const float* b, float* out, std::int64_t count, F f) {
  if (count == 0) return;
  if (aligned_16(a, b, out)) {
    map_vectors<<<grid_for(where, count / 4), block_threads, 0, where.stream>>>(a, b, out, count, f);
  } else {
    map_scalars<<<grid_for(where, count), block_threads, 0, where.stream>>>(a, b, out, count, f);
  }
  check(cudaGetLastError());
}

struct rectify {
  __device__ float operator()(float x, float) const { return x > 0.0F ? x : 0.0F; }
};
struct pass_if_positive {
  __device__ float operator()(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};
struct descend {
  float rate;
  __device__ float operator()(float w, float dw) const { return fmaf(-rate, dw, w); }
};

// `plane` vectors of Value per channel and sample.
template <class Index, class Value, class Add>
__global__ void __launch_bounds__(block_threads)
    add_per_channel(Value* y, const float* b, Index count, Index plane, Index channels, Add add) {
  for (auto i = thread_index<Index>(); i < count; i += grid_stride<Index>()) {
    y[i] = add(y[i], __ldg(b + i / plane % channels));
  }
}

struct add_scalar {
  __device__ float operator()(float y, float b) const { return y + b; }
};
struct add_vector {
  __device__ float4 operator()(float4 y, float b) const {
    return make_float4(y.x + b, y.y + b, y.z + b, y.w + b);
  }
};

template <class Value, class Add>
void launch_bias_add(launch_site where, Value* y, const float* b, std::int64_t count, std::int64_t plane,
                     std::int64_t channels, Add add) {
  const int grid = grid_for(where, count);
  if (fits_32_bits(count)) {
    add_per_channel<<<grid, block_threads, 0, where.stream>>>(y, b, static_cast<std::uint32_t>(count),
                                                              static_cast<std::uint32_t>(plane),
                                                              static_cast<std::uint32_t>(channels), add);
  } else {
    add_per_channel<<<grid, block_threads, 0, where.stream>>>(y, b, static_cast<std::uint64_t>(count),
                                                              static_cast<std::uint64_t>(plane),
                                                              static_cast<std::uint64_t>(channels), add);
  }
  check(cudaGetLastError());
}

__global__ void __launch_bounds__(block_threads)
    fill_random(float* to, std::int64_t count, std::uint32_t seed) {
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    std::uint32_t z = static_cast<std::uint32_t>(i) * 0x9e3779b9U + seed;
    z = (z ^ (z >> 16)) * 0x85ebca6bU;
    z = (z ^ (z >> 13)) * 0xc2b2ae35U;
    z ^= z >> 16;
    to[i] = static_cast<float>(static_cast<std::int32_t>(z >> 8) - (1 << 23)) / static_cast<float>(1 << 23);
  }
}

}  // namespace

void bias_add(launch_site where, float* y, const float* b, const dims& shape) {
  const std::int64_t plane = shape.h * shape.w;
  const std::int64_t count = shape.n * shape.c * plane;
  if (count == 0) return;
  if (plane % 4 == 0 && aligned_16(y)) {
    launch_bias_add(where, reinterpret_cast<float4*>(y), b, count / 4, plane / 4, shape.c, add_vector{});
  } else {
    launch_bias_add(where, y, b, count, plane, shape.c, add_scalar{});
  }
}

void relu(launch_site where, const float* x, float* y, std::int64_t count) {
  map(where, x, x, y, count, rectify{});
}

void relu_backward(launch_site where, const float* y, const float* dy, float* dx, std::int64_t count) {
  map(where, y, dy, dx, count, pass_if_positive{});
}

void sgd_update(launch_site where, float* w, const float* dw, float learning_rate, std::int64_t count) {
  map(where, w, dw, w, count, descend{learning_rate});
}

void fill(launch_site where, float* to, std::int64_t count, std::uint32_t seed) {
  if (count == 0) return;
  fill_random<<<grid_for(where, count), block_threads, 0, where.stream>>>(to, count, seed);
  check(cudaGetLastError());
}

}  // namespace um::kernels
