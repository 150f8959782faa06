// Mixed-integer linear programs, solved by HiGHS (Huangfu and Hall 2018; MIT) where the build found it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace um {

// min offset + cost . x with every x and every row within its limits.
class mixed_program {
 public:
  static constexpr double no_limit = std::numeric_limits<double>::infinity();
  using column = std::uint32_t;
  using term = std::pair<column, double>;

  // A variable; `whole`: an integer.
  column add_column(double of, double from, double to, bool is_whole = false);
  column add_share() { return add_column(0, 0, 1); }
  column add_choice() { return add_column(0, 0, 1, true); }
  // from <= sum of terms <= to. A column may come more than once: its factors add up.
  void add_row(std::vector<term> terms, double from, double to);
  void at_least(std::vector<term> terms, double from) { add_row(std::move(terms), from, no_limit); }
  void at_most(std::vector<term> terms, double to) { add_row(std::move(terms), -no_limit, to); }

  double offset = 0;
  std::vector<double> cost, least, most;  // per column
  std::vector<bool> is_integer;
  std::vector<double> row_least, row_most;
  std::vector<std::int32_t> row_begin{0}, index;  // row r has entries [row_begin[r], row_begin[r + 1])
  std::vector<double> factor;
};

struct mixed_solution {
  bool found = false;           // x holds all limits
  bool infeasible = false;      // it is proved that there is none
  double value = 0, bound = 0;  // bound: no x is better
  std::vector<double> x;
  std::int64_t nodes = 0;  // nodes of the search tree that were looked at
};

// When to be content: the same limits give the same solution with the same version of HiGHS.
struct mixed_effort {
  double gap = 0.002;         // (value - bound) / value
  std::int64_t nodes = 1000;  // most nodes of the search tree
};

// Whether this build has a solver.
bool can_solve_mixed();
// How to get one, in one line.
inline constexpr const char* how_to_get_highs =
    "this build has no HiGHS: pip install highsbox into build/venv (as ./quickstart does), configure again";

// One thread. `start`: values of some columns to begin with, as far as they lead to a solution. Throws
// unsupported without a solver.
mixed_solution minimum_of(const mixed_program& m, const mixed_effort& effort,
                          std::span<const mixed_program::term> start = {});

}  // namespace um
