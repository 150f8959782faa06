#include "backends/ballast.hpp"

#include <algorithm>
#include <limits>

#include "core/errors.hpp"

namespace um {
namespace {

bool driver_evicts(const execution_plan& plan) {
  return plan.evicted_by == evictor::driver && plan.budget != std::numeric_limits<byte_count>::max() &&
         plan.managed_arena_bytes > 0;
}

}  // namespace

byte_count bytes_evicted_by_driver(const execution_plan& plan) {
  if (!driver_evicts(plan)) return 0;
  const byte_count need = plan.device_arena_bytes + plan.managed_arena_bytes;
  return need > plan.budget ? need - plan.budget : 0;
}

byte_count ballast_bytes(const execution_plan& plan, byte_count free_bytes) {
  if (!driver_evicts(plan)) return 0;
  const byte_count left = plan.budget - std::min(plan.budget, plan.device_arena_bytes);
  if (free_bytes < left) {
    throw out_of_memory("the budget leaves " + to_text(left) + " for managed memory, but only " +
                        to_text(free_bytes) + " of device memory are free: lower the budget");
  }
  return round_down(free_bytes - left, managed_block);
}

}  // namespace um
