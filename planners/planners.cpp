#include "planners/planners.hpp"

#include <array>

namespace um {

std::span<const strategy> planners() {
  static const std::array<strategy, 5> table{{
      {"device", "everything in device memory: the baseline", plan_resident, packers::searched, {}},
      {"device_sliced",
       "as device, but where memory peaks, runs of operators go over the batch in slices",
       plan_sliced,
       packers::searched,
       {{"parts", "slices of the batch", 4, 2, 64}},
       false},
      {"swap_all",
       "offload every activation to pinned memory, fetch it `ahead` operators before its next use",
       plan_swap_all,
       packers::searched,
       {{"ahead", "operators between the fetch and the use", 2, 0, 64}}},
      {"micro_batches",
       "`k` parts of the batch one after the other, each forward and backward; gradients add up",
       plan_micro_batches,
       packers::searched,
       {{"k", "parts of the batch; 0: as few as fit", 0, 0, 4096}},
       false},
      {"best",
       "searched: what to keep, swap and compute again, and how to cut the batch",
       plan_best,
       packers::searched,
       {{"bits", "1: only plans that give the bits of `device`, nothing added up in parts", 0, 0, 1}},
       false},
  }};
  return table;
}

}  // namespace um
