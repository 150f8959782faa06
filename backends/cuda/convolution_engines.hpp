// Convolutions on cuDNN and on transforms of our own around matrix products.
//
// Deterministic engines only. A problem whose fastest engine needs more workspace than allowed is cut
// into parts along the batch, each within the cap (µ-cuDNN, Oyama et al. 2018).
#pragma once

#include <string>

#include "backends/cuda/cudnn_plans.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"

namespace um {

// Operands may be parts of tensors. `how` has the padding above and left of x, which is negative where x
// begins with rows that no window meets; what is below and right of it follows from the shapes.
struct convolution_problem {
  convolution_kind kind = convolution_kind::forward;
  dims x, w, y;
  convolution how;                         // with relu: forward alone, y = max(x * w [+ b], 0)
  bool bias = false;                       // forward alone
  bool accumulate = false;                 // the result is added to what is there; without bias or relu
  precision arithmetic = precision::fp32;  // bf16: x, w and y are bf16, but the result dw is f32
  memory_order order = memory_order::nchw;

  friend bool operator==(const convolution_problem&, const convolution_problem&) = default;
};
std::string signature_of(const convolution_problem& problem);

// The fastest recipe within `workspace_cap`, as the engine cache has it or, the first time, by
// timing. Recipes whose result differs from one computed in double precision by more than the
// precision's accuracy are passed over: cuDNN 9.19 has a Winograd filter gradient that it does not
// note as such, off by 1e-3 for 5x5 filters, as much as TF32 would be. Throws unsupported if there
// is none.
constexpr double accuracy_of(precision arithmetic) {
  return arithmetic == precision::fp32 ? 1e-4 : arithmetic == precision::tf32 ? 2e-3 : 2e-2;
}
// Operands are bound in the order x, w, y [, b], whichever of them is the result, at multiples of 16
// bytes; b is f32.
engine choose_engine(session& on, const convolution_problem& problem, byte_count workspace_cap);

}  // namespace um
