// The program whose optimum bounds plans of whole operators: when values may be off the device, and what that
// costs (README.md, "Whole operators").
#pragma once

#include <cstddef>
#include <vector>

#include "core/planner.hpp"

namespace um {

struct allowed_moves {
  bool swaps = true, recomputes = true;
};

namespace whole {

// Times are fractions of the operators' total time, bytes fractions of the budget. Interval 2 p is the wait
// before position p, 2 p + 1 its compute, 2 n the wait after the last. Instant i lies between intervals i and
// i + 1.
struct absence {
  std::size_t begin = 0, end = 0;  // instants [begin, end) at which a value may be off the device
  bool is_recomputable = false;    // it may be computed again at the end of the absence
  // Instants at which operands leave no room for it, if there are any: [first_without_room, room_again).
  std::size_t first_without_room = 0, room_again = 0;
  bool must_leave() const { return room_again > 0; }
};

// A value of a part: what one producer wrote, and the gaps between its uses.
struct value {
  double bytes = 0, copy_out_time = 0,
         copy_in_time = 0;           // fraction of the budget; times of its copies out and in
  std::size_t first_leave = 0;       // first interval in which it can leave
  std::size_t producer = 0;          // position that computes it, if any absence is recomputable
  bool starts_on_host = false;       // it starts on the host and off the device
  bool ends_on_host = false;         // its last absence ends with the iteration
  bool leaves_without_copy = false;  // its host copy is valid
  std::vector<absence> absences;     // ascending by begin
};

struct model {
  std::size_t position_count = 0;      // number of positions
  double unit_ns = 0;                  // nanoseconds of one unit of time
  std::vector<double> compute_time;    // compute time per position
  std::vector<double> recompute_time;  // per position
  std::vector<double> fixed_bytes;     // per instant: bytes that are on the device whatever is decided
  std::vector<value> values;
  std::vector<std::vector<std::size_t>>
      required_positions;  // per position: positions that must run again before it
  std::vector<int>
      recomputable_value_count;  // per position: number of values that can be computed again there
  bool is_feasible = true;       // whether operands and fixed bytes fit the budget
  bool fits_entirely = true;     // whether everything fits at once
};

model make_model(const problem& p, const std::vector<compute>& order, allowed_moves allowed);

}  // namespace whole
}  // namespace um
