// Normalisation and its gradient share these.
#pragma once

#include "backends/cuda/kernels/channels.cuh"

namespace um::kernels {

struct normalization_vectors {
  const float *scale, *shift, *mean, *inverse_deviation;
};

// The upper bound of the ReLU's output. Only outputs below it have a gradient.
inline float largest_relu_output(bool relu6) {
  return relu6 ? relu_cap : std::numeric_limits<float>::infinity();
}

// Computes scale * (x - mean) * inverse_deviation + shift for a thread's channels. The backward pass computes
// the ReLU's mask with it, so it rounds as in the forward pass wherever it is inlined.
template <int Channels>
struct normalizer {
  float mean[Channels], factor[Channels], shift[Channels];

  __device__ normalizer(const normalization_vectors& of, std::int64_t channel) {
    float scale[Channels], inverse_deviation[Channels];
    load_channels(of.scale + channel, scale);
    load_channels(of.inverse_deviation + channel, inverse_deviation);
    load_channels(of.mean + channel, mean);
    load_channels(of.shift + channel, shift);
#pragma unroll
    for (int i = 0; i < Channels; ++i) factor[i] = __fmul_rn(scale[i], inverse_deviation[i]);
  }
  __device__ float operator()(int i, float x) const {
    return __fmaf_rn(__fsub_rn(x, mean[i]), factor[i], shift[i]);
  }
};

// Launches a pass over the memory that a reduction has just read. Each thread has the same share as there,
// and walks over it backwards.
template <class Layout, int Unroll, class Op>
void launch_second_pass(launch_site where, const Op& op, const dims& shape) {
  const grid_cover c = reduction_cover<Layout>(shape.c, positions_of<Layout>(shape));
  launch(where, &map_channels<Layout, Unroll, direction::backwards, Op>, c.grid, c.block, op,
         channel_geometry::of_shape<Layout>(shape), c.positions);
}

}  // namespace um::kernels
