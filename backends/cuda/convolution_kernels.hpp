// Launchers of umbench's own convolution kernels: packing of few channels, Winograd transforms, direct
// convolutions, and spot checks. As in kernels.hpp they are deterministic, asynchronous on `where.stream`
// unless noted, and take any alignment of elements.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/kernels.hpp"
#include "core/graph.hpp"

namespace um::kernels {

// --- packing.cu ---
// Packs tensors with few channels so that libraries compute them fast: blocks of block * block pixels
// become channels (space to depth), and zeros fill up the channels. Packed channel (a * block + b) * c + ch
// at pixel (i, j) is x[ch] at (i * block + a - pad_h, j * block + b - pad_w), or zero outside; a
// filter is packed alike, without pads.
struct packing {
  dims plain_shape, packed_shape;  // shapes of x or w before and after packing
  std::int64_t block = 1, pad_h = 0, pad_w = 0;
  dtype type = dtype::f32;  // type of the packed tensor, and of x or w where those are read
  memory_order order = memory_order::nchw;
};
// There are fewer than 2^31 packed elements each.
void pack_channels(launch_site where, const void* from, void* to, const packing& form);
// dw = [dw +] the gradient with respect to the packed filter, unpacked. With equal shapes and block 1 this
// only converts or adds.
void unpack_filter_gradient(launch_site where, const void* packed, float* dw, const packing& form, bool add);

// --- winograd.cu ---
// 3 x 3 convolutions of stride 1 by tiles of 4 x 4 results, each from 6 x 6 inputs (Winograd 1980;
// Lavin and Gray 2016): 36 products instead of 144. The transforms of a tile are its 36 elements;
// element e of all tiles is a matrix, [e][channel][tile] in nchw and [e][tile][channel] in nhwc.
// f32 throughout; fewer than 2^31 (tile, channel) pairs.
struct winograd_tiles {
  dims shape;             // extents of the tensor in pixels
  std::int64_t rows = 0;  // rows of tiles in each image
  std::int64_t columns = 0;
  std::int64_t pad_h = 0, pad_w = 0;  // pixels that tiles begin above and left of the tensor
  memory_order order = memory_order::nchw;
  // Number of segments into which all tiles are cut. The tiles of each form a matrix of their own:
  // [e][segment][channel][tile].
  std::int64_t segments = 1;

  std::int64_t count() const { return shape.n * rows * columns; }
};
inline constexpr std::int64_t winograd_elements = 36;

void winograd_input(launch_site where, const float* x, float* to, const winograd_tiles& of);
// Writes [e][k][c] of a filter [k, c, 3, 3]. `mirrored`, for the data gradient: [e][c][k] of the filter
// turned around.
void winograd_filter(launch_site where, const float* w, float* to, const dims& shape, memory_order order,
                     bool mirrored);
// y = result [+ b], and max(y, 0) with relu.
void winograd_output(launch_site where, const float* from, float* y, const float* b, bool relu,
                     const winograd_tiles& of);
// Writes tiles of 4 x 4 of the gradient of y, as factors of the filter gradient.
void winograd_output_gradient(launch_site where, const float* dy, float* to, const winograd_tiles& of);
// dw = [dw +] sum over segments of [e][segment][k][c].
void winograd_filter_gradient(launch_site where, const float* from, float* dw, const dims& shape,
                              memory_order order, std::int64_t segments, bool add);

// --- direct_forward.cu, direct_filter_gradient.cu ---
// Convolutions of few input channels in nhwc, without intermediate tensors: the inputs of a tile lie in
// shared memory, tensor cores multiply bf16 or f32 rounded to tf32, sums are f32. The bytes of y bound
// them; libraries are far from that bound for shallow filters. Operands are aligned to 16 bytes.
struct direct_convolution {
  dims x, w, y;
  convolution attributes;
  dtype type = dtype::f32;  // type of x, w and y; dw is f32
};
inline constexpr int direct_shared_bytes =
    227 * 1024;  // the most shared memory that a block may have on compute capability 9.0

bool direct_forward_fits(const direct_convolution& of);
// y = x * w [+ b], and max(y, 0) with attributes.relu; b may be null.
void direct_forward(launch_site where, const direct_convolution& of, const void* x, const void* w,
                    const float* b, void* y);
bool direct_filter_gradient_fits(const direct_convolution& of);
// The bytes depend, as the order of sums does, on shapes and the number of multiprocessors.
std::size_t direct_filter_gradient_workspace(int multiprocessors, const direct_convolution& of);
// dw = [dw +] the gradient.
void direct_filter_gradient(launch_site where, const direct_convolution& of, const void* x, const void* dy,
                            float* dw, bool add, float* workspace);

// --- planar_filter_gradient.cu ---
// dw = [dw +] the gradient, of at most 4 input channels, in nchw and f32 throughout: 3 x 3 taps of stride 1
// or 2, 7 x 7 of stride 2 and 11 x 11 of stride 4, multiples of 32 channels of y. Bound by multiply-adds
// (AlexNet, 7 x 7) or by the bytes of dy (3 x 3). Any alignment of elements.
bool planar_filter_gradient_fits(const direct_convolution& of);
int planar_filter_gradient_shared_bytes(const direct_convolution& of);
std::size_t planar_filter_gradient_workspace(int multiprocessors, const direct_convolution& of);
void planar_filter_gradient(launch_site where, const direct_convolution& of, const float* x, const float* dy,
                            float* dw, bool add, float* workspace);

// --- deep_filter_gradient.cu ---
// dw = [dw +] the gradient, of many channels: 3 x 3 and 5 x 5 taps, stride 1, f32 rounded to tf32, in
// nhwc, multiples of 64 channels of y and of 4 of x. Each operand is read once for every 64 channels of
// the other. Operands aligned to 16 bytes.
bool deep_filter_gradient_fits(const direct_convolution& of);
int deep_filter_gradient_shared_bytes(const direct_convolution& of);
std::size_t deep_filter_gradient_workspace(int multiprocessors, const direct_convolution& of);
void deep_filter_gradient(launch_site where, const direct_convolution& of, const float* x, const float* dy,
                          float* dw, bool add, float* workspace);

// --- grouped_convolution.cu ---
// Convolutions in groups, also depthwise ones: one thread computes each result straight from memory, since
// memory bounds those of few channels in a group. Sums in f32; tensors of fewer than 2^31 elements. Padding
// may be negative.
struct grouped_convolution {
  dims x, w, y;
  convolution attributes;
  dtype type = dtype::f32;  // type of x, w and y; dw is f32
  memory_order order = memory_order::nchw;
};
// y = x * w [+ b], and max(y, 0) with attributes.relu; b may be null.
void grouped_forward(launch_site where, const grouped_convolution& of, const void* x, const void* w,
                     const float* b, void* y);
void grouped_backward_data(launch_site where, const grouped_convolution& of, const void* w, const void* dy,
                           void* dx);
std::size_t grouped_filter_workspace(int multiprocessors, const grouped_convolution& of);
// dw = [dw +] the gradient.
void grouped_backward_filter(launch_site where, const grouped_convolution& of, const void* x, const void* dy,
                             float* dw, bool add, float* workspace);

// --- sampled_convolution.cu ---

// A convolution of which some elements are computed exactly, to check engines.
struct sampled_convolution {
  dims x, w, y;
  convolution attributes;
  dtype operands = dtype::f32, result = dtype::f32;
  memory_order order = memory_order::nchw;
  int result_operand = 2;  // 0: x, 1: w, 2: y
};
// Computes elements of the result at pseudo-random places in double precision. These two functions wait for
// the stream: they serve the choice of engines, not runs. b may be null.
std::vector<double> sampled_results(launch_site where, const sampled_convolution& of, const void* x,
                                    const void* w, const void* y, const float* b);
// Relative error ||result - expected|| / ||expected|| over the same places; NaN if the result has a NaN.
double sampled_relative_error(launch_site where, const sampled_convolution& of, const void* result,
                              const std::vector<double>& expected);

}  // namespace um::kernels
