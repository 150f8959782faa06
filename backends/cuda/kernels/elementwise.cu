#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/values.cuh"

namespace um::kernels {
namespace {

// out[i] = f(a[i], b[i]), or f(a[i]) where F takes one operand. Each thread of a block computes `Unroll`
// vectors of N elements. Block 0 also computes the elements behind the last vector. a, b and out may be the
// same memory if their types are the same.
template <int N, int Unroll, class In, class Out, class F>
__global__ void __launch_bounds__(block_threads)
    map_elements(const In* a, const In* b, Out* out, std::int64_t count, F f) {
  constexpr bool two = F::operands == 2;
  const std::int64_t vectors = count / N;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (block_threads * Unroll) + threadIdx.x;
  bits<In, N> left[Unroll], right[Unroll];
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    const std::int64_t i = first + u * block_threads;
    if (i >= vectors) break;
    left[u] = load<N>(a + i * N);
    if constexpr (two) right[u] = load<N>(b + i * N);
  }
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    const std::int64_t i = first + u * block_threads;
    if (i >= vectors) break;
    float x[N], y[N] = {}, result[N];
    unpack<In, N>(left[u], x);
    if constexpr (two) unpack<In, N>(right[u], y);
#pragma unroll
    for (int j = 0; j < N; ++j) result[j] = f(x[j], two ? y[j] : 0.0F);
    store<N>(out + i * N, pack<Out, N>(result));
  }
  if (N > 1 && first < count % N) {
    const std::int64_t i = vectors * N + first;
    float x[1], y[1] = {};
    unpack<In, 1>(load<1>(a + i), x);
    if constexpr (two) unpack<In, 1>(load<1>(b + i), y);
    const float result[1] = {f(x[0], two ? y[0] : 0.0F)};
    store<1>(out + i, pack<Out, 1>(result));
  }
}

template <int N, int Unroll, class In, class Out, class F>
void launch_elements(launch_site where, const In* a, const In* b, Out* out, std::int64_t count, F f) {
  const std::int64_t blocks = divide_up(std::max<std::int64_t>(count / N, 1), block_threads * Unroll);
  launch(where, &map_elements<N, Unroll, In, Out, F>, static_cast<unsigned>(blocks), block_threads, a, b, out,
         count, f);
}

template <class In, class Out, class F>
void map(launch_site where, const void* a, const void* b, void* out, std::int64_t count, F f) {
  if (count == 0) return;
  const auto* const left = static_cast<const In*>(a);
  const auto* const right = static_cast<const In*>(b);
  auto* const to = static_cast<Out*>(out);
  constexpr int wide = std::max(vector_of<In>, vector_of<Out>);
  if (aligned_to(16, a, b, out)) {
    launch_elements<wide, 2>(where, left, right, to, count, f);
  } else {
    launch_elements<1, 8>(where, left, right, to, count, f);
  }
}

struct relu_value {
  static constexpr int operands = 1;
  __device__ float operator()(float x, float) const { return x > 0.0F ? x : 0.0F; }
};
struct relu_gradient {
  static constexpr int operands = 2;
  __device__ float operator()(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};
struct relu6_value {
  static constexpr int operands = 1;
  __device__ float operator()(float x, float) const { return fminf(x > 0.0F ? x : 0.0F, relu_cap); }
};
struct relu6_gradient {
  static constexpr int operands = 2;
  __device__ float operator()(float y, float dy) const { return y > 0.0F && y < relu_cap ? dy : 0.0F; }
};
struct plus {
  static constexpr int operands = 2;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct identity {
  static constexpr int operands = 1;
  __device__ float operator()(float x, float) const { return x; }
};
struct sgd_step {
  static constexpr int operands = 2;
  float rate;
  __device__ float operator()(float w, float dw) const { return fmaf(-rate, dw, w); }
};

template <class T>
__global__ void __launch_bounds__(block_threads)
    fill_elements(T* to, std::int64_t count, std::uint32_t seed) {
  for (auto i = thread_index<std::int64_t>(); i < count; i += grid_stride<std::int64_t>()) {
    std::uint32_t z = static_cast<std::uint32_t>(i) * 0x9e3779b9U + seed;
    z = (z ^ (z >> 16)) * 0x85ebca6bU;
    z = (z ^ (z >> 13)) * 0xc2b2ae35U;
    z ^= z >> 16;
    const float value[1] = {static_cast<float>(static_cast<std::int32_t>(z >> 8) - (1 << 23)) /
                            static_cast<float>(1 << 23)};
    store<1>(to + i, pack<T, 1>(value));
  }
}

}  // namespace

void relu(launch_site where, const void* x, void* y, std::int64_t count, dtype type, bool relu6) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if (relu6) return map<T, T>(where, x, nullptr, y, count, relu6_value{});
    map<T, T>(where, x, nullptr, y, count, relu_value{});
  });
}

void relu_backward(launch_site where, const void* y, const void* dy, void* dx, std::int64_t count, dtype type,
                   bool relu6) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if (relu6) return map<T, T>(where, y, dy, dx, count, relu6_gradient{});
    map<T, T>(where, y, dy, dx, count, relu_gradient{});
  });
}

void add(launch_site where, const void* a, const void* b, void* y, std::int64_t count, dtype type) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    map<T, T>(where, a, b, y, count, plus{});
  });
}

void cast(launch_site where, const void* x, dtype from, void* y, dtype to, std::int64_t count) {
  with_type(from, [&](auto in) {
    with_type(to,
              [&](auto out) { map<decltype(in), decltype(out)>(where, x, nullptr, y, count, identity{}); });
  });
}

void sgd_update(launch_site where, float* w, const float* dw, float learning_rate, std::int64_t count) {
  map<float, float>(where, w, dw, w, count, sgd_step{learning_rate});
}

void fill_random(launch_site where, void* to, std::int64_t count, dtype type, std::uint32_t seed) {
  if (count == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    launch(where, &fill_elements<T>, grid_for(where, count), block_threads, static_cast<T*>(to), count, seed);
  });
}

}  // namespace um::kernels
