// Convolutions on cuDNN through cudnn-frontend. The descriptor layer of the frontend is used, not
// its graph class: only there can results be added to the output (beta = 1), which slices of a
// filter gradient need, and can operands be bound once, before the first step.
//
// Single precision without TF32, deterministic engines only, NCHW.
#pragma once

#include <string>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/graph.hpp"

namespace um {

enum class convolution_kind : std::uint8_t { forward, backward_data, backward_filter };

struct convolution_problem {
  convolution_kind kind = convolution_kind::forward;
  dims x, w, y;
  convolution how;
  bool accumulate = false;
  std::int64_t alignment = 16;  // of all three operands, in bytes

  friend bool operator==(const convolution_problem&, const convolution_problem&) = default;
};
std::string signature_of(const convolution_problem& problem);

// The fastest engine within `workspace_cap`, as the engine cache has it or, the first time, by
// timing every candidate. Candidates whose result is further than `accuracy` from that of a direct
// convolution (one without workspace: no transform) are passed over: cuDNN 9.19 has a Winograd
// filter gradient that it does not note as such, off by 1e-3 for 5x5 filters, as much as TF32 would
// be. Throws unsupported if there is none.
inline constexpr double accuracy = 1e-4;
// Operands are bound in the order x, w, y, whichever of them is the result.
engine choose_engine(session& on, const convolution_problem& problem, byte_count workspace_cap);

}  // namespace um
