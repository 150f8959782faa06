// Mixed-integer linear programs, solved by HiGHS (Huangfu and Hall 2018; MIT) if the build found it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace um {

// Minimizes offset + costs . x with every variable and every row within its limits.
class mixed_program {
 public:
  static constexpr double no_limit = std::numeric_limits<double>::infinity();
  using column = std::uint32_t;
  using term = std::pair<column, double>;

  // Adds a variable with its cost and limits.
  column add_column(double cost, double from, double to, bool is_whole = false);
  column add_fraction() { return add_column(0, 0, 1); }
  column add_binary() { return add_column(0, 0, 1, true); }
  // Adds from <= sum of terms <= to. A column may occur more than once: its factors add up.
  void add_row(std::vector<term> terms, double from, double to);
  void add_at_least(std::vector<term> terms, double from) { add_row(std::move(terms), from, no_limit); }
  void add_at_most(std::vector<term> terms, double to) { add_row(std::move(terms), -no_limit, to); }

  double offset = 0;                                  // constant of the objective
  std::vector<double> costs, column_min, column_max;  // per column
  std::vector<bool> is_integer;
  std::vector<double> row_min, row_max;
  std::vector<std::int32_t> row_begin{0}, columns;  // row r has entries [row_begin[r], row_begin[r + 1])
  std::vector<double> factors;                      // nonzeros, row by row
};

struct mixed_solution {
  bool is_feasible = false;           // x satisfies all limits
  bool is_infeasible = false;         // proved: no x satisfies all limits
  double value = 0, lower_bound = 0;  // objective of `x`; proved lower bound
  std::vector<double> x;              // values of the columns
  std::int64_t node_count = 0;        // nodes of the search tree visited
};

// Limits of the solver. The same limits give the same solution with the same version of HiGHS.
struct solver_limits {
  double relative_gap = 0.002;    // (value - bound) / value
  std::int64_t max_nodes = 1000;  // most nodes of the search tree
};

// Whether this build has a solver.
bool has_mixed_solver();
// One line that says how to get HiGHS.
inline constexpr const char* how_to_get_highs =
    "this build has no HiGHS: pip install highsbox into build/venv (as ./quickstart does), configure again";

// Uses one thread. `start`: values of some columns to start from, if they lead to a solution. Throws
// unsupported without a solver.
mixed_solution minimize(const mixed_program& m, const solver_limits& effort,
                        std::span<const mixed_program::term> start = {});

}  // namespace um
