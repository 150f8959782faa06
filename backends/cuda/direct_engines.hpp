// Convolutions by kernels of our own: in tf32 and bf16, nhwc, of few input channels, and gradients of
// filters of many in tf32; gradients of filters of few input channels in fp32, nchw; those in groups in any
// type and order.
#pragma once

#include "backends/cuda/convolution_recipe.hpp"
#include "backends/cuda/session.hpp"

namespace um {

bool direct_applies(const convolution_problem& problem);
// One recipe, of one part: it needs no smaller ones.
void visit_direct(session& on, const convolution_problem& problem, std::int64_t parts,
                  const std::function<bool(const convolution_recipe&)>& visit);

}  // namespace um
