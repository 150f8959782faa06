// The program whose optimum bounds plans of whole operators: what may be away when, and what that takes
// (README.md, "Whole operators").
#pragma once

#include <cstddef>
#include <vector>

#include "core/planner.hpp"

namespace um {

struct allowed {
  bool swaps = true, repeats = true;
};

namespace whole {

// Times are parts of the operators' time, bytes parts of the budget. Interval 2 p is the wait before position
// p, 2 p + 1 its compute, 2 n the wait behind everything. Instant i lies between intervals i and i + 1.
struct absence {
  std::size_t first = 0, last = 0;  // instants at which a value may be away: [first, last)
  bool recomputable = false;        // it may be computed again at the end
};

// A value of a part: what one producer made, and the gaps between its uses.
struct value {
  double bytes = 0, out = 0, in = 0;  // share of the budget; times of its copies out and in
  std::size_t made = 0;               // the first interval in which it can leave
  std::size_t producer = 0;           // position that computes it, if any absence is recomputable
  bool from_home = false;             // at home at the start, and away before its first use
  bool stays_home = false;            // the last absence ends with the iteration
  bool clean = false;                 // it leaves without a copy
  std::vector<absence> away;          // in order
};

struct model {
  std::size_t count = 0;      // number of positions
  double unit = 0;            // nanoseconds of one unit of time
  std::vector<double> time;   // compute time per position
  std::vector<double> again;  // recomputation time per position
  std::vector<double> fixed;  // per instant: resident bytes that no decision changes
  std::vector<value> values;
  std::vector<std::vector<std::size_t>> needs;  // positions that must run again for one
  std::vector<int> large_outputs;               // per position: values that can be computed again there
  bool feasible = true;                         // operands and bytes that must stay fit the budget
  bool all_fits = true;                         // everything fits: nothing has to leave
};

model model_of(const problem& p, const std::vector<compute>& order, allowed what);

}  // namespace whole
}  // namespace um
