// Launchers of our own kernels: everything that cuDNN and cuBLASLt do not do better. All are
// deterministic (no atomics; sums in an order that depends on shapes alone), accept more than
// 2^31 elements and any alignment of floats, and are asynchronous on `where.stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/graph.hpp"

namespace um::kernels {

struct launch_site {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

// What a kernel must know of a tensor; elements are f32 or bf16, arithmetic is fp32.
struct form {
  dims shape;
  dtype type = dtype::f32;
  memory_order order = memory_order::nchw;
};

// --- elementwise.cu ---
// y = y + b[c] where b is given, then max(y, 0) where relu is asked for; in place.
void bias_relu(launch_site where, void* y, const float* b, bool relu, const form& of);
// Pseudo-random values in [-1, 1), for timing: zeros would run faster than data does.
void fill(launch_site where, void* to, std::int64_t count, dtype type, std::uint32_t seed);
void relu(launch_site where, const float* x, float* y, std::int64_t count);
void relu_backward(launch_site where, const float* y, const float* dy, float* dx, std::int64_t count);
void sgd_update(launch_site where, float* w, const float* dw, float learning_rate, std::int64_t count);
// Pseudo-random values in [-1, 1), for timing: zeros would run faster than data does.
void fill(launch_site where, float* to, std::int64_t count, std::uint32_t seed);

// --- difference.cu ---
// ||a - b|| / ||b||, summed in double precision. Waits for the stream; for choosing engines, not
// for runs. Not a number if a holds one.
double relative_difference(launch_site where, const void* a, const void* b, std::int64_t count, dtype type);

// --- bias_backward.cu ---
// db[c] = sum of dy over all but c; added to db if `accumulate`. `shape` is dy's.
std::size_t bias_backward_workspace(const dims& shape);
void bias_backward(launch_site where, const float* dy, float* db, const dims& shape, bool accumulate,
                   float* workspace);

// --- max_pool.cu --- `Index` as the operator's index tensor has it: 1 or 2 bytes wide.
struct pool_shape {
  dims x, y;
  max_pool how;
  int index_bytes = 1;
};
void max_pool_forward(launch_site where, const float* x, float* y, void* index, const pool_shape& shape);
void max_pool_backward(launch_site where, const float* dy, const void* index, float* dx,
                       const pool_shape& shape);

// --- softmax.cu --- rows of `classes` logits; the mean is over `batch`, of which `rows` are here.
struct softmax_shape {
  std::int64_t rows = 0, classes = 0, batch = 0;
};
std::size_t softmax_workspace(const softmax_shape& shape);
void softmax_cross_entropy(launch_site where, const float* logits, const std::int32_t* labels, float* loss,
                           float* probabilities, const softmax_shape& shape, bool accumulate,
                           float* workspace);
void softmax_cross_entropy_backward(launch_site where, const float* probabilities, const std::int32_t* labels,
                                    float* dlogits, const softmax_shape& shape);

}  // namespace um::kernels
