// The columns and rows of the program over gaps (gap_program.hpp), as data that the functions below fill in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedule/forecast.hpp"
#include "schedule/milp/gap_program.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um::milp {

using column = mixed_program::column;
using term = mixed_program::term;
using terms = std::vector<term>;

// Factors near 1 keep the program well conditioned.
constexpr double ns_a_unit = 1000, bytes_a_unit = 1 << 20;
constexpr double in_units(nanoseconds time) {
  return static_cast<double>(time) / ns_a_unit;
}
constexpr double in_units(byte_count bytes) {
  return static_cast<double>(bytes) / bytes_a_unit;
}

// The order of computes cut into runs of about equal time, at whose ends a choice may change.
struct time_slots {
  std::vector<std::size_t> of_position;
  std::vector<position> begin;    // per slot
  std::vector<nanoseconds> time;  // per slot
  std::size_t count() const { return time.size(); }
  std::size_t of(position at) const { return of_position[static_cast<std::size_t>(at)]; }
};
time_slots slots_of(const use_table& uses, const forecaster& costs, std::size_t most);

// The columns of one gap whose part may be away; per slot from `first` on.
struct gap_columns {
  std::uint32_t gap = 0;
  std::size_t first = 0;
  std::vector<column> given, taken;               // memory given up by then, and taken back
  std::vector<std::optional<column>> recomputed;  // in that slot; the last one: right before the next use
  std::optional<column> swapped;
};

// Work of each lane in each slot, and behind the last one.
struct lane_terms {
  std::vector<terms> in, out, in_stall, out_stall;  // stall: while computing waits for it
  std::vector<terms> recomputed;
  std::vector<terms> transient;  // memory of what is computed again, at the beginning of the slot
};

struct gap_model {
  // References are kept. Makes the slots and their columns; nothing is away yet.
  gap_model(const problem& p, const use_table& uses, const std::vector<gap>& gaps, const forecaster& costs,
            std::span<const byte_count> live, const gap_program& what);

  const graph& g;
  const machine& on;
  const use_table& uses;
  const std::vector<gap>& gaps;
  const forecaster& costs;
  std::span<const byte_count> live;
  const gap_program& what;

  mixed_program program;
  time_slots slots;
  std::vector<column> stall;  // before each slot, and behind the last
  lane_terms lanes;
  std::vector<gap_columns> away;
  std::vector<std::optional<std::size_t>> of_gap;  // per gap: index into away
  std::vector<std::optional<column>> staged;       // per tensor: it is at home at the start or the end
  std::map<std::pair<position, std::size_t>, column> runs;  // whether a position is recomputed before a slot

  tensor_id tensor_of(const gap& e) const { return uses.parts[e.part].what; }
  byte_count bytes_of(const gap& e) const { return uses.parts[e.part].bytes; }
  bool is_at_start(const gap& e) const { return e.last < 0; }
  bool is_at_end(const gap& e) const { return e.next >= uses.end(); }
  column staged_column(tensor_id t);
};

// Adds the columns of every gap that is worth leaving.
void add_absences(gap_model& m);
// Adds when a part may be computed again, and what that needs.
void add_recomputation(gap_model& m);
void add_memory_limits(gap_model& m);
void add_lane_limits(gap_model& m);

}  // namespace um::milp
