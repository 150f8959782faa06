#include "schedule/milp/mixed_program.hpp"

#include <algorithm>

namespace um {

mixed_program::column mixed_program::add_column(double of, double from, double to, bool is_whole) {
  cost.push_back(of);
  least.push_back(from);
  most.push_back(to);
  is_integer.push_back(is_whole);
  return static_cast<column>(cost.size() - 1);
}

void mixed_program::add_row(std::vector<term> terms, double from, double to) {
  std::ranges::sort(terms);
  const auto begin = static_cast<std::size_t>(row_begin.back());
  for (const auto& [which, by] : terms) {
    if (index.size() > begin && index.back() == static_cast<std::int32_t>(which)) {
      factor.back() += by;
    } else {
      index.push_back(static_cast<std::int32_t>(which));
      factor.push_back(by);
    }
  }
  row_begin.push_back(static_cast<std::int32_t>(index.size()));
  row_least.push_back(from);
  row_most.push_back(to);
}

}  // namespace um
