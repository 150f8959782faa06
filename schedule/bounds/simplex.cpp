#include "schedule/bounds/simplex.hpp"

#include <algorithm>
#include <limits>

namespace um {
namespace {

constexpr double tiny = 1e-11;

}  // namespace

linear_solution minimize(const linear_program& lp) {
  const std::size_t rows = lp.rows.size(), variables = lp.costs.size(), columns = variables + rows;
  std::vector<std::vector<double>> at(rows + 1, std::vector<double>(columns + 1, 0));
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < variables; ++j) at[i][j] = lp.rows[i].coefficients[j];
    at[i][variables + i] = 1;
    at[i][columns] = lp.rows[i].limit;
  }
  for (std::size_t j = 0; j < variables; ++j) at[rows][j] = lp.costs[j];
  constexpr int most_pivots = 10'000;
  for (int pivots = 0; pivots < most_pivots; ++pivots) {
    std::size_t leaves = rows;
    for (std::size_t i = 0; i < rows; ++i) {
      if (at[i][columns] < (leaves == rows ? -tiny : at[leaves][columns])) leaves = i;
    }
    if (leaves == rows) {
      linear_solution solution{true, -at[rows][columns], {}};
      for (std::size_t i = 0; i < rows; ++i) solution.dual.push_back(std::max(0.0, at[rows][variables + i]));
      return solution;
    }
    std::size_t enters = columns;
    double least = std::numeric_limits<double>::max();
    for (std::size_t j = 0; j < columns; ++j) {
      if (at[leaves][j] >= -tiny) continue;
      const double ratio = at[rows][j] / -at[leaves][j];
      if (ratio < least - tiny) {
        least = ratio;
        enters = j;
      }
    }
    if (enters == columns) return {};
    const double pivot = at[leaves][enters];
    for (double& x : at[leaves]) x /= pivot;
    for (std::size_t i = 0; i <= rows; ++i) {
      const double factor = at[i][enters];
      if (i == leaves || factor == 0) continue;
      for (std::size_t j = 0; j <= columns; ++j) at[i][j] -= factor * at[leaves][j];
    }
  }
  return {};
}

}  // namespace um
