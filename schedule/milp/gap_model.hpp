// The columns and rows of the integer program over gaps. The functions below fill them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "schedule/forecast.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {

// The integer program over the gaps of an order of computes (tvDNN's integer program, Park et al., PPoPP
// 2018, and Checkmate's, Jain et al., MLSys 2020, written over intervals without a tensor). For every gap and
// time slot it decides whether the part's memory is released and reacquired, the shares of its copies out and
// in, and whether the part is recomputed, which requires its inputs. In each slot computes, copies in and
// copies out overlap, and the slot lasts as long as the longest of them. Not modelled: the order of copies
// within a slot, the slowdown of copies in both directions at once, workspaces of recomputations, packing.

struct gap_program_options {
  byte_count memory_bytes = 0;
  bool swaps = true, recomputes = true;
  // The order is cut into at most this many slots of about equal time. Decisions change only between slots.
  // One slot per position makes the program exact.
  std::size_t max_slots = 400;
  byte_count min_part_bytes = MiB;  // smaller parts stay in inner gaps
};

}  // namespace um

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

// The order of computes, cut into slots of about equal time.
struct time_slots {
  std::vector<std::size_t> slot_of_position;
  std::vector<position> begin;    // per slot
  std::vector<nanoseconds> time;  // per slot
  std::size_t count() const { return time.size(); }
  std::size_t slot_of(position at) const { return slot_of_position[static_cast<std::size_t>(at)]; }
};
time_slots make_slots(const use_table& uses, const forecaster& costs, std::size_t max_slots);

// The columns of one gap whose part may leave the device. Vectors have an entry per slot, from `first_slot`
// on.
struct gap_columns {
  std::uint32_t gap = 0;
  std::size_t first_slot = 0;
  std::vector<column> released;    // whether the part's memory is released by that slot
  std::vector<column> reacquired;  // whether it is reacquired by that slot
  // Whether the part is recomputed in that slot. Last entry: right before the next use.
  std::vector<std::optional<column>> recompute_in_slot;
  std::optional<column> swap_share;
};

// Work of each lane in each slot and after the last one.
struct lane_terms {
  std::vector<terms> copy_in, copy_out, copy_in_stall,
      copy_out_stall;                   // copies in the slot; *_stall: copies that computing waits for
  std::vector<terms> recompute;         // recomputations in each slot
  std::vector<terms> transient_memory;  // memory of recomputed parts at the beginning of the slot
};

struct gap_model {
  // Keeps references. Creates the slots and their columns; no gap may leave yet.
  gap_model(const problem& p, const use_table& uses, const std::vector<gap>& gaps, const forecaster& costs,
            std::span<const byte_count> live_at_positions, const gap_program_options& options);

  const graph& network;
  const machine& target;
  const use_table& uses;
  const std::vector<gap>& gaps;
  const forecaster& costs;
  std::span<const byte_count> live_at_positions;
  const gap_program_options& options;

  mixed_program program;
  time_slots slots;
  std::vector<column> stall_columns;  // time waited before each slot and after the last
  lane_terms lanes;
  std::vector<gap_columns> absences;                       // of the gaps in which a part may leave the device
  std::vector<std::optional<std::size_t>> absence_of_gap;  // per gap: index into absences
  std::vector<std::optional<column>>
      staged_columns;  // per tensor: whether it is on the host at the start or the end
  std::map<std::pair<position, std::size_t>, column>
      recompute_columns;  // position and slot: whether the position is recomputed before the slot

  tensor_id tensor_of(const gap& e) const { return uses.parts[e.part].tensor; }
  byte_count bytes_of(const gap& e) const { return uses.parts[e.part].bytes; }
  bool is_at_start(const gap& e) const { return e.last_use < 0; }
  bool is_at_end(const gap& e) const { return e.next_use >= uses.end(); }
  column staged_column(tensor_id t);
};

// Adds the columns of every gap in which a part may leave the device.
void add_absences(gap_model& m);
// Adds recomputations and their requirements.
void add_recomputation(gap_model& m);
void add_memory_limits(gap_model& m);
void add_lane_limits(gap_model& m);

}  // namespace um::milp
