// Launchers of umbench's own kernels, for everything that cuDNN and cuBLASLt do not do better. All are
// deterministic (no atomics; sums in an order that depends on shapes alone), are asynchronous on
// `where.stream`, and accept more than 2^31 elements, in planes of fewer than 2^30. Elements are f32
// or bf16 where a `dtype` says so, arithmetic is fp32. Any alignment of elements does; addresses that
// are multiples of 16 bytes are fast. Workspaces are in bytes and need the alignment of floats.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/graph.hpp"

namespace um::kernels {

struct launch_site {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

// The shape, type and memory order of a tensor.
struct tensor_form {
  dims shape;
  dtype type = dtype::f32;
  memory_order order = memory_order::nchw;
};

// --- elementwise.cu ---
// Outputs may take the place of inputs of the same type. relu6: min(max(x, 0), 6).
void relu(launch_site where, const void* x, void* y, std::int64_t count, dtype type, bool relu6 = false);
void relu_backward(launch_site where, const void* y, const void* dy, void* dx, std::int64_t count, dtype type,
                   bool relu6 = false);
void add(launch_site where, const void* a, const void* b, void* y, std::int64_t count, dtype type);
// Rounds to nearest even, and not in place.
void cast(launch_site where, const void* x, dtype from, void* y, dtype to, std::int64_t count);
void sgd_update(launch_site where, float* w, const float* dw, float learning_rate, std::int64_t count);
// Writes pseudo-random values in [-1, 1), for timing: zeros would run faster than data does.
void fill_random(launch_site where, void* to, std::int64_t count, dtype type, std::uint32_t seed);

// --- optimizer_step.cu ---
// A parameter (f32, or bf16 with a master), its gradient and its optimizer states. Pointers may be null.
struct stepped_tensor {
  void* w = nullptr;
  const float* dw = nullptr;
  float *m = nullptr, *v = nullptr, *master = nullptr;  // optimizer states; fp32 master of w
  std::int64_t count = 0;
  bool is_aligned = false;  // set by the launcher
};
inline constexpr int max_stepped_tensors = 512;  // as many as fit into the parameters of a kernel
// Takes the step of all tensors in one kernel. With two moments, then *steps += 1.
void take_optimizer_step(launch_site where, std::span<const stepped_tensor> tensors,
                         const optimizer_step& update, std::int32_t* steps);

// --- replay.cu ---
// An operator of which only the touched memory and the time are known.
struct replayed_operand {
  std::byte* address = nullptr;
  std::int64_t bytes = 0;
  bool reads = false, writes = false, is_floating_point = true;
};
inline constexpr int max_replayed_operands = 100;  // as many as fit into the parameters of a kernel
struct replayed_operator {
  replayed_operand operands[max_replayed_operands];
  int count = 0;
  std::int64_t duration_ns = 0;  // with all operands resident
};
// Reads and writes all operands side by side, and lasts as long as the operator did. Delays of its reads and
// writes (faults, the link) add to that. Writes small numbers, or zeros to integers. `bytes_per_s` is the
// rate of device memory.
void replay(launch_site where, const replayed_operator& replayed, std::int64_t bytes_per_s);

// --- bias.cu ---
// y = y + b[c] if b is given, then max(y, 0) with relu; in place.
void bias_relu(launch_site where, void* y, const float* b, bool relu, const tensor_form& of);
// db[c] = sum of dy over all but c; added to db if `accumulate`.
std::size_t bias_backward_workspace(const tensor_form& of);
void bias_backward(launch_site where, const void* dy, float* db, const tensor_form& of, bool accumulate,
                   float* workspace);
// dx = dy where y > 0, else 0, and db = sum of dx; dx may be dy. Workspace as for bias_backward.
void relu_bias_backward(launch_site where, const void* y, const void* dy, void* dx, float* db,
                        const tensor_form& of, bool accumulate, float* workspace);

// --- max_pool.cu, max_pool_backward.cu --- `index` is 1 or 2 bytes wide.
struct max_pool_problem {
  dims x, y;
  max_pool attributes;
  dtype type = dtype::f32;
  memory_order order = memory_order::nchw;
  int index_bytes = 1;
  int pad_above = attributes.pad;  // rows of padding above x; differs if x is a part of a tensor's rows
};
// b may be null. With attributes.relu, y = max(maximum + b, 0).
void max_pool_forward(launch_site where, const void* x, const float* b, void* y, void* index,
                      const max_pool_problem& problem);
// y is read if attributes.relu; db and its workspace may be null; db is added to if `accumulate`.
std::size_t max_pool_backward_workspace(const max_pool_problem& problem);
void max_pool_backward(launch_site where, const void* dy, const void* index, const void* y, void* dx,
                       float* db, const max_pool_problem& problem, bool accumulate, float* workspace);

// --- batch_norm.cu, batch_norm_backward.cu ---
// Mean and 1 / sqrt(biased variance + epsilon) of every channel.
std::size_t batch_statistics_workspace(const tensor_form& of);
void batch_statistics(launch_site where, const void* x, float epsilon, float* mean, float* inverse_deviation,
                      const tensor_form& of, float* workspace);
struct normalization {
  const void* x = nullptr;
  const float *scale = nullptr, *shift = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
  const void* residual = nullptr;  // or null
  void* y = nullptr;
  bool relu = false, relu6 = false;
};
void normalize(launch_site where, const normalization& operands, const tensor_form& of);
// Operands as in core/operators.hpp; optional ones may be null.
struct normalization_gradient {
  const void* x = nullptr;
  const float *scale = nullptr, *shift = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
  const void *dy = nullptr, *dy2 = nullptr, *y = nullptr;
  void* dx = nullptr;
  float *dscale = nullptr, *dshift = nullptr;
  void* dresidual = nullptr;
  bool relu = false, relu6 = false;
};
std::size_t batch_norm_backward_workspace(const tensor_form& of);
void batch_norm_backward(launch_site where, const normalization_gradient& operands, const tensor_form& of,
                         float* workspace);

// --- global_average_pool.cu --- `of` is x's.
void global_average_pool(launch_site where, const void* x, void* y, const tensor_form& of);
void global_average_pool_backward(launch_site where, const void* dy, void* dx, const tensor_form& of);

// --- average_pool.cu ---
// A part of an average pool or of its gradient. It begins with rows first_x_row of x and first_y_row of y.
// The whole input has `height` rows.
struct average_pool_problem {
  dims x, y;
  average_pool attributes;
  dtype type = dtype::f32;
  memory_order order = memory_order::nchw;
  std::int64_t first_x_row = 0, first_y_row = 0, height = 1;  // the whole x has `height` rows
};
void average_pool_forward(launch_site where, const void* x, void* y, const average_pool_problem& problem);
void average_pool_backward(launch_site where, const void* dy, void* dx, const average_pool_problem& problem);

// --- softmax.cu --- rows of `classes` logits; the mean is over `batch`, of which `rows` are here.
struct softmax_problem {
  std::int64_t rows = 0, classes = 0, batch = 0;  // of `batch` rows of logits, `rows` are here
  dtype type = dtype::f32;
};
std::size_t softmax_workspace(const softmax_problem& problem);
// Computes the loss and probabilities. The loss is added to if `accumulate`.
void softmax_cross_entropy(launch_site where, const void* logits, const std::int32_t* labels, float* loss,
                           void* probabilities, const softmax_problem& problem, bool accumulate,
                           float* workspace);
void softmax_cross_entropy_backward(launch_site where, const void* probabilities, const std::int32_t* labels,
                                    void* dlogits, const softmax_problem& problem);
// Computes the loss and its gradient. dlogits may be logits. Workspace as for softmax_cross_entropy.
void softmax_cross_entropy_gradient(launch_site where, const void* logits, const std::int32_t* labels,
                                    float* loss, void* dlogits, const softmax_problem& problem,
                                    bool accumulate, float* workspace);

}  // namespace um::kernels
