// Costs of events, tabulated once for an order. Forecasts use them for thousands of lists of events.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/trace.hpp"
#include "schedule/decisions.hpp"

namespace um {

// Time to recompute a whole operator: the minimum of running it again and of its cheaper recomputation.
nanoseconds time_again(const problem& p, op_id what);

struct forecast_part {
  byte_count bytes = 0;
  tensor_id what = 0;
  bool persists = false, survives = false;
};

// Refers to the table of uses and to the machine. Vectors are per position unless they say otherwise.
struct event_costs {
  const use_table& uses;
  const machine& on;
  std::vector<nanoseconds> time, time_again;  // time of the first run; of a recomputation
  std::vector<byte_count> workspace, workspace_again;
  // The parts that it may compute in place, input and output; the same twice: it computes none so.
  std::vector<std::pair<part_id, part_id>> in_place;
  std::vector<touched_part> touches;       // touches of all positions, one position after another
  std::vector<std::uint32_t> first_touch;  // and one past the last
  std::vector<forecast_part> parts;        // per part

  // All of a `compute` event.
  nanoseconds time_of(const event& e) const { return e.again ? time_again[e.which] : time[e.which]; }
  byte_count workspace_of(const event& e) const {
    return e.again ? workspace_again[e.which] : workspace[e.which];
  }
  std::span<const touched_part> touches_of(const event& e) const {
    if (e.again) return uses.touched_again(static_cast<position>(e.which));
    return {touches.data() + first_touch[e.which], touches.data() + first_touch[e.which + 1]};
  }
};

// Asks cost_of() once for every position, and for its repetition if that is another operator.
event_costs tabulate(const problem& p, const use_table& uses);

nanoseconds time_of_copy(const machine& on, byte_count bytes, lane where);

}  // namespace um
