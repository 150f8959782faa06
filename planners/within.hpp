// Finds a plan whose packed arena fits the budget, by a planner that counts live bytes only.
#pragma once

#include <functional>
#include <string>

#include "core/planner.hpp"

namespace um {

// Whether the machine's file knows the rates of the link to the host, over which tensors are swapped.
constexpr bool has_link(const machine& m) {
  return m.link_to_device_bytes_per_s > 0 && m.link_to_host_bytes_per_s > 0;
}
// Size of the plan's device arena, whatever the budget.
byte_count packed_bytes(problem p, const memory_plan& plan, packer how = packers::searched);

// A lower bound on the plan's time: the maximum of its computes and its fetches.
nanoseconds least_time_of(const problem& p, const memory_plan& plan);

// A lower bound on the time of plans that end an operator before the next one begins, in the graph's order,
// and compute nothing again: what exceeds the budget between two operators must still be fetched.
nanoseconds least_time_of_swaps(const problem& p);

// No plan of the strategy takes less than problem::time_to_beat.
struct too_slow : infeasible {
  explicit too_slow(const std::string& strategy)
      : infeasible(strategy + " is no faster than what is to beat") {}
};

// `make` returns a plan for that many live bytes or throws infeasible. Reduces `room` by what packing needs
// beyond live bytes until the arena fits the budget. Throws infeasible, naming the strategy, if it never
// fits, and too_slow if the plan that fits takes problem::time_to_beat or longer.
memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make);

}  // namespace um
