// Linear programs with few rows.
#pragma once

#include <vector>

namespace um {

// Minimizes costs . x subject to x >= 0 and coefficients . x <= limit for each row. Costs are not negative.
struct linear_program {
  struct row {
    std::vector<double> coefficients;  // one per variable
    double limit = 0;                  // upper limit of coefficients . x
  };
  std::vector<double> costs;  // one per variable; their sum is minimized
  std::vector<row> rows;
};

struct linear_solution {
  bool is_feasible = false;  // false: no x satisfies all rows
  double value = 0;          // the minimum
  std::vector<double> dual;  // one per row, not negative: decrease of the value per unit of that row's limit
};

// The dual simplex method (Lemke 1954) on a dense tableau, ties by Bland's rule: costs that are not negative
// make the start dual feasible.
linear_solution minimize(const linear_program& lp);

}  // namespace um
