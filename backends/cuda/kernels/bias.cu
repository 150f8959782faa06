#include "backends/cuda/kernels/channels.cuh"

namespace um::kernels {
namespace {

template <class Layout>
struct add_bias {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  T* y;
  const float* b;
  bool relu;

  using loaded = bits<T, N>;
  struct channel_state {
    float b[own_channels] = {};
  };
  __device__ channel_state begin(std::int64_t channel) const {
    channel_state s;
    if (b != nullptr) load_channels(b + channel, s.b);
    return s;
  }
  __device__ loaded load(std::int64_t at) const { return kernels::load<N>(y + at); }
  __device__ void apply(std::int64_t at, const loaded& values, const channel_state& s) const {
    float v[N];
    unpack<T, N>(values, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] += s.b[i % own_channels];
      if (relu) v[i] = v[i] > 0.0F ? v[i] : 0.0F;
    }
    store<N>(y + at, pack<T, N>(v));
  }
};

// Sums up dy. With `Masked` it takes dy where y > 0, and writes the masked dy.
template <class Layout, bool Masked>
struct sum_gradient {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  const T *y, *dy;
  T* dx;

  using sum = single_sum;
  struct loaded {
    bits<T, N> dy, y;
  };
  struct channel_state {
    float sums[own_channels] = {};
  };
  __device__ channel_state begin(std::int64_t) const { return {}; }
  __device__ loaded load(std::int64_t at) const {
    loaded values;
    values.dy = kernels::load<N>(dy + at);
    if constexpr (Masked) values.y = kernels::load<N>(y + at);
    return values;
  }
  __device__ void apply(std::int64_t at, const loaded& values, channel_state& s) const {
    float g[N];
    unpack<T, N>(values.dy, g);
    if constexpr (Masked) {
      float mask[N];
      unpack<T, N>(values.y, mask);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = mask[i] > 0.0F ? g[i] : 0.0F;
      store<N>(dx + at, pack<T, N>(g));
    }
#pragma unroll
    for (int i = 0; i < N; ++i) s.sums[i % own_channels] += g[i];
  }
  __device__ void end(const channel_state& s, sum (&mine)[own_channels]) const {
#pragma unroll
    for (int i = 0; i < own_channels; ++i) mine[i].value = s.sums[i];
  }
};

}  // namespace

void bias_relu(launch_site where, void* y, const float* b, bool relu, const tensor_form& of) {
  if (b == nullptr && !relu) return;
  with_layout(of, aligned_to(16, y), [&](auto l) {
    using L = decltype(l);
    const add_bias<L> op{static_cast<typename L::value*>(y), b, relu};
    launch_map<L, loads_in_flight<L>(4)>(where, op, of.shape);
  });
}

std::size_t bias_backward_workspace(const tensor_form& of) {
  return reduction_workspace<single_sum>(of);
}

void bias_backward(launch_site where, const void* dy, float* db, const tensor_form& of, bool accumulate,
                   float* workspace) {
  with_layout(of, aligned_to(16, dy), [&](auto l) {
    using L = decltype(l);
    const sum_gradient<L, false> op{nullptr, static_cast<const typename L::value*>(dy), nullptr};
    launch_reduction<L, loads_in_flight<L>(4)>(where, op, of.shape, workspace, write_sum{db, accumulate});
  });
}

void relu_bias_backward(launch_site where, const void* y, const void* dy, void* dx, float* db,
                        const tensor_form& of, bool accumulate, float* workspace) {
  with_layout(of, aligned_to(16, y, dy, dx), [&](auto l) {
    using L = decltype(l);
    using T = typename L::value;
    const sum_gradient<L, true> op{static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx)};
    launch_reduction<L, loads_in_flight<L>(4)>(where, op, of.shape, workspace, write_sum{db, accumulate});
  });
}

}  // namespace um::kernels
