#include "planners/planners.hpp"

#include <array>

namespace um {

std::span<const strategy> planners() {
  static const std::array<strategy, 3> table{{
      {"device", "everything in device memory: the baseline", plan_resident, packer::best_fit, {}},
      {"device_sliced",
       "as device, but where memory peaks, runs of operators go over the batch in slices",
       plan_sliced,
       packer::best_fit,
       {{"parts", "slices of the batch", 4, 2, 64}},
       false},
      {"swap_all",
       "offload every activation to pinned memory, fetch it `ahead` operators before its next use",
       plan_swap_all,
       packer::best_fit,
       {{"ahead", "operators between the fetch and the use", 2, 0, 64}}},
  }};
  return table;
}

}  // namespace um
