// 3 x 3 convolutions of stride 1 in fp32 as Winograd tiles: transforms of our own around batches of
// 36 matrix products. cuDNN's engines of this kind need the transforms of the whole batch at once;
// these need those of one part.
#pragma once

#include "backends/cuda/convolution_recipe.hpp"
#include "backends/cuda/session.hpp"

namespace um {

bool winograd_applies(const convolution_problem& problem);
void visit_winograd(session& on, const convolution_problem& problem, std::int64_t parts,
                    const std::function<bool(const convolution_recipe&)>& visit);

}  // namespace um
