// From decisions by live bytes to a plan whose packed arena keeps within the budget.
#pragma once

#include <functional>
#include <string>

#include "core/planner.hpp"

namespace um {

// A lower bound on the plan's time: its computes one after the other, or its fetches.
nanoseconds least_time_of(const problem& p, const memory_plan& plan);

// `make` gives a plan for so much room, or throws infeasible. What packing needs beyond live bytes is taken
// off the room until the arena keeps within the budget; throws infeasible, naming the strategy, where it
// never does, and where a plan takes problem::time_to_beat or longer.
memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make);

}  // namespace um
