// 3 x 3 convolutions of stride 1 in fp32 as Winograd tiles: umbench's own transforms around batches of 36
// matrix products. cuDNN's engines of this kind hold the transforms of the whole batch at once; these hold
// those of one part.
#pragma once

#include "backends/cuda/convolution_recipe.hpp"
#include "backends/cuda/session.hpp"

namespace um {

bool winograd_applies(const convolution_problem& problem);
void visit_winograd(session& gpu, const convolution_problem& problem, std::int64_t parts,
                    const std::function<bool(const convolution_recipe&)>& visit);

}  // namespace um
