// Convolutions on cuDNN and on transforms of our own around matrix products.
//
// Deterministic engines only. A problem whose fastest engine needs more workspace than allowed is cut
// into parts along the batch, each within the cap (µ-cuDNN, Oyama et al. 2018).
#pragma once

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// The fastest recipe within `workspace_cap`, as the engine cache has it or, the first time, by
// timing. Recipes whose result differs from one computed in double precision by more than the
// precision's accuracy are passed over: cuDNN 9.19 has a Winograd filter gradient that it does not
// note as such, off by 1e-3 for 5x5 filters, as much as TF32 would be. Throws unsupported if there
// is none.
// Operands are bound in the order x, w, y [, b], whichever of them is the result, at multiples of 16
// bytes; b is f32.
engine choose_engine(session& on, const convolution_problem& problem, byte_count workspace_cap);

}  // namespace um
