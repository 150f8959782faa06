// Batches of equal f32 matrix products on cuBLASLt, contiguous one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// d = op(a) op(b) in column-major terms: d is rows x columns, the sum runs over `depth`.
struct batched_product {
  std::int64_t rows = 1, columns = 1, depth = 1, count = 1;
  bool transpose_a = false, transpose_b = false;
};

struct batched_algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  byte_count workspace_bytes = 0;
};

// cuBLASLt's proposals within the cap, the likeliest first. Every process on one machine gets the same
// ones.
std::vector<batched_algorithm> proposed_algorithms(session& on, const batched_product& problem,
                                                   byte_count cap);

// Data in the order a, b, d.
kernel_call bind(session& on, const batched_product& problem, const batched_algorithm& how,
                 const bound_operands& operands);

}  // namespace um
