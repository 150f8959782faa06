// From decisions by live bytes to a plan whose packed arena keeps within the budget.
#pragma once

#include <functional>
#include <string>

#include "core/planner.hpp"

namespace um {

// During its lifetime plan_within, in this thread, gives up at a plan that takes `time` or longer: not worth
// packing.
class only_faster_than {
 public:
  explicit only_faster_than(nanoseconds time);
  ~only_faster_than();
  only_faster_than(const only_faster_than&) = delete;
  only_faster_than& operator=(const only_faster_than&) = delete;

 private:
  nanoseconds outer_;
};

// A lower bound on the plan's time: its computes one after the other, or its fetches.
nanoseconds least_time_of(const problem& p, const memory_plan& plan);

// `make` gives a plan for so much room, or throws infeasible. What packing needs beyond live bytes is taken
// off the room until the arena keeps within the budget; throws infeasible, naming the strategy, where it
// never does, and where a plan takes too long (only_faster_than).
memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make);

}  // namespace um
