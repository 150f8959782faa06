// umbench's own kernels compute some convolutions:
//   tf32 and bf16, nhwc   few input channels
//   tf32, nhwc            filter gradients of many channels
//   fp32, nchw            filter gradients of few input channels
//   any type and order    convolutions in groups
#pragma once

#include "backends/cuda/convolution_recipe.hpp"
#include "backends/cuda/session.hpp"

namespace um {

bool direct_applies(const convolution_problem& problem);
// Visits one recipe, in one part: its workspace needs no smaller parts.
void visit_direct(session& gpu, const convolution_problem& problem, std::int64_t parts,
                  const std::function<bool(const convolution_recipe&)>& visit);

}  // namespace um
