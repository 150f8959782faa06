// Finds a plan whose packed arena fits the budget, by a planner that counts live bytes only.
#pragma once

#include <functional>
#include <string>

#include "core/planner.hpp"

namespace um {

// Whether the machine has a link to the host, over which tensors can be swapped.
constexpr bool has_link(const machine& m) {
  return m.link_to_device_bytes_per_s > 0 && m.link_to_host_bytes_per_s > 0;
}
// The problem with estimated costs of parts: on a GPU the measured cost of a part takes a search for its
// engine. Cheap recomputations of whole operators keep theirs, since every search asks for these.
problem with_estimates(problem p);

// Size of the plan's packed device arena, which may exceed the budget. Asks for costs of parts only if the
// arena is within the budget by estimates.
byte_count packed_bytes(problem p, const memory_plan& plan, packer how = packers::searched);

// Lower bound on the plan's time: the larger of the sum of its computes and the sum of its fetches.
nanoseconds time_lower_bound(const problem& p, const memory_plan& plan);

// Lower bound on the time of plans that run whole operators in the graph's order and recompute nothing: at
// any operator, bytes that live beyond the budget must still be fetched. The maximum if they do not fit into
// host memory.
nanoseconds swap_time_lower_bound(const problem& p);

// Whether the plan is so slow, by estimated costs of parts, that no plan with less memory is likely to beat
// problem::time_to_beat: less memory may make a plan faster, but hardly ever by a tenth.
bool is_clearly_slower(const problem& p, const memory_plan& plan);

// Thrown if no plan of the strategy takes less than problem::time_to_beat, or none is likely to.
struct too_slow : infeasible {
  explicit too_slow(const std::string& strategy, bool fits_budget = false)
      : infeasible(strategy + " is no faster than what is to beat"), fits(fits_budget) {}
  bool fits;  // whether the plan that is too slow is known to fit
};

// As packed_bytes(), but throws too_slow if the plan fits and takes problem::time_to_beat or longer. A faster
// packer mostly tells that such a plan fits.
byte_count packed_bytes_unless_slow(const problem& p, const memory_plan& plan, packer how,
                                    const std::string& strategy);

// `make` returns a plan for that many live bytes or throws infeasible. Reduces `room` by what packing needs
// beyond live bytes until the arena fits the budget. Throws infeasible, naming the strategy, if it never
// fits. Throws too_slow if the plan that fits takes problem::time_to_beat or longer, or if a plan that is
// not known to fit exceeds that time by a ninth by a lower bound, or by a fourth by an estimate.
memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make);

}  // namespace um
