#include "schedule/milp/mixed_program.hpp"

#include <algorithm>

namespace um {

mixed_program::column mixed_program::add_column(double cost, double from, double to, bool is_whole) {
  costs.push_back(cost);
  column_min.push_back(from);
  column_max.push_back(to);
  is_integer.push_back(is_whole);
  return static_cast<column>(costs.size() - 1);
}

void mixed_program::add_row(std::vector<term> terms, double from, double to) {
  std::ranges::sort(terms);
  const auto begin = static_cast<std::size_t>(row_begin.back());
  for (const auto& [which, by] : terms) {
    if (columns.size() > begin && columns.back() == static_cast<std::int32_t>(which)) {
      factors.back() += by;
    } else {
      columns.push_back(static_cast<std::int32_t>(which));
      factors.push_back(by);
    }
  }
  row_begin.push_back(static_cast<std::int32_t>(columns.size()));
  row_min.push_back(from);
  row_max.push_back(to);
}

}  // namespace um
