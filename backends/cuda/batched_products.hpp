// Batches of equal f32 matrix products on cuBLASLt. They lie one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// d = op(a) op(b) in column-major terms: d is rows x columns, and the sum runs over `depth`.
struct batched_product {
  // `count` products of rows x depth and depth x columns.
  std::int64_t rows = 1, columns = 1, depth = 1, count = 1;
  bool transpose_a = false, transpose_b = false;
};

struct batched_algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  byte_count workspace_bytes = 0;
};

// cuBLASLt proposes these within the cap, the likeliest first. Every process on one machine gets the same
// ones.
std::vector<batched_algorithm> proposed_algorithms(session& gpu, const batched_product& problem,
                                                   byte_count cap);

// The data come in the order a, b, d.
kernel_call bind(session& gpu, const batched_product& problem, const batched_algorithm& algorithm,
                 const bound_operands& operands);

}  // namespace um
