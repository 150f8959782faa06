#include "backends/cuda/kernels/batch_norm.cuh"

namespace um::kernels {
namespace {

// The moments of two sets are combined without a difference of squares, which would cancel (Chan, Golub and
// LeVeque 1983). `squares` sums up squared distances from the mean.
struct moments {
  float count = 0.0F, mean = 0.0F, squares = 0.0F;

  __device__ static moments plus(const moments& a, const moments& b) {
    const float count = a.count + b.count;
    if (count == 0.0F) return a;
    const float distance = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + distance * share,
            a.squares + b.squares + distance * distance * (a.count * share)};
  }
};

// Sums up distances from the thread's first value, and their squares. Values of a channel are near each
// other, so little cancels.
template <class Layout>
struct collect_moments {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  const T* x;

  using sum = moments;
  using loaded = bits<T, N>;
  struct channel_state {
    float near[own_channels], distance[own_channels] = {}, squares[own_channels] = {};
    float count = 0.0F;
  };
  __device__ channel_state begin(std::int64_t) const { return {}; }
  __device__ loaded load(std::int64_t at) const { return kernels::load<N>(x + at); }
  __device__ void apply(std::int64_t, const loaded& values, channel_state& s) const {
    float v[N];
    unpack<T, N>(values, v);
#pragma unroll
    for (int i = 0; i < own_channels; ++i) s.near[i] = s.count == 0.0F ? v[i] : s.near[i];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float distance = v[i] - s.near[i % own_channels];
      s.distance[i % own_channels] += distance;
      s.squares[i % own_channels] = fmaf(distance, distance, s.squares[i % own_channels]);
    }
    s.count += N / own_channels;
  }
  __device__ void end(const channel_state& s, sum (&mine)[own_channels]) const {
    if (s.count == 0.0F) return;
#pragma unroll
    for (int i = 0; i < own_channels; ++i) {
      const float mean = s.distance[i] / s.count;
      mine[i] = {s.count, s.near[i] + mean, fmaxf(s.squares[i] - s.distance[i] * mean, 0.0F)};
    }
  }
};

struct write_statistics {
  float epsilon;
  float *mean, *inverse_deviation;

  __device__ void operator()(std::int64_t channel, const moments& total) const {
    mean[channel] = total.mean;
    inverse_deviation[channel] = 1.0F / sqrtf(total.squares / total.count + epsilon);
  }
};

template <class Layout, bool Residual>
struct apply_normalization {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  normalization_vectors of;
  const T *x, *residual;
  T* y;
  bool relu;
  float relu_bound;  // upper bound of y with relu

  struct loaded {
    bits<T, N> x, residual;
  };
  using channel_state = normalizer<own_channels>;
  __device__ channel_state begin(std::int64_t channel) const { return channel_state(of, channel); }
  __device__ loaded load(std::int64_t at) const {
    loaded values;
    values.x = kernels::load<N>(x + at);
    if constexpr (Residual) values.residual = kernels::load<N>(residual + at);
    return values;
  }
  __device__ void apply(std::int64_t at, const loaded& values, const channel_state& s) const {
    float v[N], added[N] = {};
    unpack<T, N>(values.x, v);
    if constexpr (Residual) unpack<T, N>(values.residual, added);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = s(i % own_channels, v[i]);
      if constexpr (Residual) v[i] += added[i];
      if (relu) v[i] = fminf(v[i] > 0.0F ? v[i] : 0.0F, relu_bound);
    }
    store<N>(y + at, pack<T, N>(v));
  }
};

template <class Layout, bool Residual>
void launch_normalize(launch_site where, const normalization& operands, const dims& shape) {
  using T = typename Layout::value;
  const apply_normalization<Layout, Residual> op{
      {operands.scale, operands.shift, operands.mean, operands.inverse_deviation},
      static_cast<const T*>(operands.x),
      static_cast<const T*>(operands.residual),
      static_cast<T*>(operands.y),
      operands.relu,
      largest_relu_output(operands.relu6)};
  // The second pass begins with the memory that the statistics read last, which is the likeliest to be in the
  // cache.
  launch_second_pass<Layout, loads_in_flight<Layout>(Residual ? 2 : 4)>(where, op, shape);
}

}  // namespace

std::size_t batch_statistics_workspace(const tensor_form& of) {
  return reduction_workspace<moments>(of);
}

void batch_statistics(launch_site where, const void* x, float epsilon, float* mean, float* inverse_deviation,
                      const tensor_form& of, float* workspace) {
  with_layout(of, aligned_to(16, x), [&](auto l) {
    using L = decltype(l);
    const collect_moments<L> op{static_cast<const typename L::value*>(x)};
    launch_reduction<L, loads_in_flight<L>(4)>(where, op, of.shape, workspace,
                                               write_statistics{epsilon, mean, inverse_deviation});
  });
}

void normalize(launch_site where, const normalization& operands, const tensor_form& of) {
  with_layout(of, aligned_to(16, operands.x, operands.residual, operands.y), [&](auto l) {
    using L = decltype(l);
    if (operands.residual != nullptr) return launch_normalize<L, true>(where, operands, of.shape);
    launch_normalize<L, false>(where, operands, of.shape);
  });
}

}  // namespace um::kernels
