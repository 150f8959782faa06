// Costs of events, tabulated once for an order of computes.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/trace.hpp"
#include "schedule/decisions.hpp"

namespace um {

// Time to recompute a whole operator: the minimum of running it again and of its cheaper recomputation, if it
// has one.
nanoseconds recompute_time(const problem& p, op_id o);

struct part_costs {
  byte_count bytes = 0;
  tensor_id tensor = 0;
  bool persists = false, survives = false;
  bool keeps_memory = false;                         // as um::keeps_memory
  nanoseconds copy_to_device = 0, copy_to_host = 0;  // time of a copy if no other copy runs
};

// An operator writes `output` over `input`, which nothing uses later. If neither is staged, both take one
// memory.
struct joined_tensors {
  tensor_id input = 0, output = 0;
  byte_count bytes = 0;  // that would be counted twice
};

// Keeps references. Vectors are indexed by position unless noted.
struct event_costs {
  const use_table& uses;
  const machine& target;
  std::vector<nanoseconds> compute_time, recompute_time;  // first run; recomputation
  std::vector<byte_count> workspace, recompute_workspace;
  // Input and output part that share memory if the operator runs in place. Equal ids: it does not.
  std::vector<std::pair<part_id, part_id>> in_place_parts;
  std::vector<touched_part> touches;       // parts touched by all positions, one position after another
  std::vector<std::uint32_t> first_touch;  // per position, and one past the last: index into touches
  std::vector<part_costs> parts;           // per part
  std::vector<joined_tensors> joined;      // empty if graph::shares_memory is set

  // For events of kind `compute` only.
  nanoseconds time_of_compute(const event& e) const {
    return e.is_recompute ? recompute_time[e.subject] : compute_time[e.subject];
  }
  byte_count workspace_of(const event& e) const {
    return e.is_recompute ? recompute_workspace[e.subject] : workspace[e.subject];
  }
  std::span<const touched_part> touches_of(const event& e) const {
    if (e.is_recompute) return uses.touched_by_recompute(static_cast<position>(e.subject));
    return {touches.data() + first_touch[e.subject], touches.data() + first_touch[e.subject + 1]};
  }
};

// Bytes that `parts` counts twice, since tensors that are not staged lie in the same memory.
byte_count joined_bytes(const event_costs& costs, const std::vector<bool>& staged_tensors);

// Calls cost_of() once for every position, and once more if its recomputation is another operator.
event_costs tabulate_costs(const problem& p, const use_table& uses);

nanoseconds copy_time(const machine& m, byte_count bytes, lane where);

}  // namespace um
