// Chooses the fastest way to compute a convolution. Only deterministic engines are tried. A problem whose
// fastest engine needs more workspace than allowed is cut into parts along the batch, each within the cap
// (µ-cuDNN, Oyama et al. 2018).
#pragma once

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// Returns the fastest recipe within `workspace_cap`: from the engine cache or, the first time, by timing. A
// recipe is rejected if its result differs from one in double precision by more than the accuracy of the
// precision. (cuDNN 9.19 has an unmarked filter gradient for 5x5 filters that is off by 1e-3 in fp32.) Throws
// unsupported if there is none. Operands come in the order x, w, y [, b] for every direction. Each address is
// a multiple of 16 bytes. b is f32.
engine choose_engine(session& gpu, const convolution_problem& problem, byte_count workspace_cap);

}  // namespace um
