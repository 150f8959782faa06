// A linear program of a few rows.
#pragma once

#include <cstddef>
#include <vector>

namespace um {

// min cost . x with x >= 0 and, for each row, coefficients . x <= limit. Costs are not negative.
struct linear_program {
  struct row {
    std::vector<double> coefficients;
    double limit = 0;
  };
  std::vector<double> cost;
  std::vector<row> at_most;
};

struct linear_solution {
  bool bounded = false;  // false: no x keeps all rows
  double value = 0;
  std::vector<double> dual;  // one per row, not negative: how much the value falls for a larger limit
};

// The dual simplex method (Lemke 1954) on a dense tableau, ties by Bland's rule: costs that are not negative
// make the start dual feasible.
linear_solution minimum_of(const linear_program& lp);

}  // namespace um
