// The gradient takes two passes. With g the gradient behind the ReLU, M elements a channel and
// h = (x - mean) * inverse_deviation:
//   dshift = sum of g, dscale = sum of g * h
//   dx = scale * inverse_deviation * (g - dshift / M - h * dscale / M)
// With a residual the first pass writes g to dresidual, and the second reads it. Without one the second
// computes g again.
#include "backends/cuda/kernels/batch_norm.cuh"

namespace um::kernels {
namespace {

// Reads the gradient of the ReLU's input.
template <class Layout>
struct gradient_source {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  const T *x, *dy, *dy2, *y;  // dy2 and y may be null
  bool mask_from_x;
  float relu_bound;  // upper bound of the ReLU's output

  __device__ bool passes(float result) const { return result > 0.0F && result < relu_bound; }
  struct loaded {
    bits<T, N> x, dy, dy2, y;
  };
  __device__ loaded load(std::int64_t at) const {
    loaded values;
    values.x = kernels::load<N>(x + at);
    values.dy = kernels::load<N>(dy + at);
    if (dy2 != nullptr) values.dy2 = kernels::load<N>(dy2 + at);
    if (y != nullptr) values.y = kernels::load<N>(y + at);
    return values;
  }
  __device__ void unpack_to(const loaded& values, const normalizer<own_channels>& of, float (&x_values)[N],
                            float (&g)[N]) const {
    unpack<T, N>(values.x, x_values);
    unpack<T, N>(values.dy, g);
    float other[N];
    if (dy2 != nullptr) {
      unpack<T, N>(values.dy2, other);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] += other[i];
    }
    if (y != nullptr) {
      unpack<T, N>(values.y, other);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = passes(other[i]) ? g[i] : 0.0F;
    }
    if (mask_from_x) {
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = passes(of(i % own_channels, x_values[i])) ? g[i] : 0.0F;
    }
  }
};

template <class Layout>
struct sum_gradients {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  normalization_vectors of;
  gradient_source<Layout> from;
  T* dresidual;  // null if there is no residual

  using sum = sum_pair;
  using loaded = typename gradient_source<Layout>::loaded;
  struct channel_state {
    normalizer<own_channels> of;
    float g[own_channels] = {}, products[own_channels] = {};
  };
  __device__ channel_state begin(std::int64_t channel) const {
    return {normalizer<own_channels>(of, channel)};
  }
  __device__ loaded load(std::int64_t at) const { return from.load(at); }
  __device__ void apply(std::int64_t at, const loaded& values, channel_state& s) const {
    float x[N], g[N];
    from.unpack_to(values, s.of, x, g);
    if (dresidual != nullptr) {  // the second pass reads the rounded g, so the sums use it, too
      const bits<T, N> rounded = pack<T, N>(g);
      store<N>(dresidual + at, rounded);
      unpack<T, N>(rounded, g);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      s.g[i % own_channels] += g[i];
      s.products[i % own_channels] =
          fmaf(g[i], x[i] - s.of.mean[i % own_channels], s.products[i % own_channels]);
    }
  }
  __device__ void end(const channel_state& s, sum (&mine)[own_channels]) const {
#pragma unroll
    for (int i = 0; i < own_channels; ++i) mine[i] = {s.g[i], s.products[i]};
  }
};

struct write_gradients {
  const float* inverse_deviation;
  float *dscale, *dshift;

  __device__ void operator()(std::int64_t channel, const sum_pair& total) const {
    dshift[channel] = total.first;
    dscale[channel] = total.second * inverse_deviation[channel];
  }
};

template <class Layout>
struct apply_gradient {
  using T = typename Layout::value;
  static constexpr int N = Layout::vector, own_channels = Layout::channels;
  normalization_vectors of;
  gradient_source<Layout> from;
  const float *dscale, *dshift;
  float per_channel;  // 1 / M
  T* dx;

  using loaded = typename gradient_source<Layout>::loaded;
  struct channel_state {
    normalizer<own_channels> of;
    float mean_gradient[own_channels], slope[own_channels];
  };
  __device__ channel_state begin(std::int64_t channel) const {
    channel_state s{normalizer<own_channels>(of, channel)};
    float inverse_deviation[own_channels];
    load_channels(of.inverse_deviation + channel, inverse_deviation);
    load_channels(dshift + channel, s.mean_gradient);
    load_channels(dscale + channel, s.slope);
#pragma unroll
    for (int i = 0; i < own_channels; ++i) {
      s.mean_gradient[i] *= per_channel;
      s.slope[i] *= per_channel * inverse_deviation[i];
    }
    return s;
  }
  __device__ loaded load(std::int64_t at) const { return from.load(at); }
  __device__ void apply(std::int64_t at, const loaded& values, const channel_state& s) const {
    float x[N], g[N];
    from.unpack_to(values, s.of, x, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int c = i % own_channels;
      const float rest = fmaf(s.of.mean[c] - x[i], s.slope[c], g[i] - s.mean_gradient[c]);
      g[i] = s.of.factor[c] * rest;
    }
    store<N>(dx + at, pack<T, N>(g));
  }
};

template <class Layout>
void launch_both_passes(launch_site where, const normalization_gradient& operands, const dims& shape,
                        float* workspace) {
  using T = typename Layout::value;
  const auto* const x = static_cast<const T*>(operands.x);
  const bool residual = operands.dresidual != nullptr;
  const gradient_source<Layout> given{x,
                                      static_cast<const T*>(operands.dy),
                                      static_cast<const T*>(operands.dy2),
                                      operands.relu && residual ? static_cast<const T*>(operands.y) : nullptr,
                                      operands.relu && !residual,
                                      largest_relu_output(operands.relu6)};
  const normalization_vectors of{operands.scale, operands.shift, operands.mean, operands.inverse_deviation};
  launch_reduction<Layout, loads_in_flight<Layout>(2)>(
      where, sum_gradients<Layout>{of, given, static_cast<T*>(operands.dresidual)}, shape, workspace,
      write_gradients{operands.inverse_deviation, operands.dscale, operands.dshift});
  const gradient_source<Layout> written{
      x, static_cast<const T*>(operands.dresidual), nullptr, nullptr, false, 0.0F};
  const auto count = static_cast<float>(shape.n * shape.h * shape.w);
  launch_second_pass<Layout, loads_in_flight<Layout>(2)>(
      where,
      apply_gradient<Layout>{of, residual ? written : given, operands.dscale, operands.dshift, 1.0F / count,
                             static_cast<T*>(operands.dx)},
      shape);
}

}  // namespace

std::size_t batch_norm_backward_workspace(const tensor_form& of) {
  return reduction_workspace<sum_pair>(of);
}

void batch_norm_backward(launch_site where, const normalization_gradient& operands, const tensor_form& of,
                         float* workspace) {
  const bool aligned =
      aligned_to(16, operands.x, operands.dy, operands.dy2, operands.y, operands.dx, operands.dresidual);
  with_layout(of, aligned,
              [&](auto l) { launch_both_passes<decltype(l)>(where, operands, of.shape, workspace); });
}

}  // namespace um::kernels
