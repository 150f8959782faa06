// The matrix products of fully connected layers on cuBLASLt, with bias, ReLU and bias gradient in the
// product's epilogue.
#pragma once

#include <string>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// Operands are row-major: x [n, in], w [out, in], y [n, out], b [out].
//   forward          x, w [, b] -> y    y = x w' + b
//   backward_data    w, y -> x          x = y w
//   backward_filter  x, y -> w          w = y' x
enum class matrix_kind : std::uint8_t { forward, backward_data, backward_filter };

struct matrix_problem {
  matrix_kind kind = matrix_kind::forward;
  std::int64_t n = 1, in = 1, out = 1;  // x is n x in, w is out x in, y is n x out
  bool has_bias = false;                // forward: y = x w' + b; backward_filter: also b = sum of y
  bool relu = false;                    // forward alone
  bool accumulate = false;
  precision arithmetic = precision::fp32;  // bf16: x, w and y are bf16, but a result w is f32
  std::uint32_t alignment = 16;            // least alignment of all operands, in bytes
};
std::string signature_of(const matrix_problem& problem);

// Returns the fastest algorithm within `workspace_cap` of those that cuBLASLt proposes, chosen once as for
// convolutions. Operands are bound in the order x, w, y [, b]; b is f32. Throws unsupported if there is none.
engine choose_engine(session& gpu, const matrix_problem& problem, byte_count workspace_cap);

}  // namespace um
