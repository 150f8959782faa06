#include "planners/planners.hpp"

#include <array>

namespace um {

std::span<const strategy> planners() {
  static const std::array<strategy, 2> table{{
      {"device", "everything in device memory: the baseline", plan_resident, packer::best_fit, {}},
      {"swap_all",
       "offload every activation to pinned memory, fetch it `ahead` operators before its next use",
       plan_swap_all,
       packer::best_fit,
       {{"ahead", "operators between the fetch and the use", 2, 0, 64}}},
  }};
  return table;
}

}  // namespace um
