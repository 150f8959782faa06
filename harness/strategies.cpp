#include "harness/strategies.hpp"

#include "harness/suggest.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"

namespace um {

const std::vector<strategy>& strategies() {
  static const std::vector<strategy> all = [] {
    std::vector<strategy> rows(planners().begin(), planners().end());
    rows.insert(rows.end(), hints().begin(), hints().end());
    return rows;
  }();
  return all;
}

const strategy& strategy_named(std::string_view name) {
  if (const strategy* found = find(strategies(), name)) return *found;
  std::vector<std::string> known;
  for (const strategy& s : strategies()) known.push_back(s.name);
  throw input_error(unknown_name("strategy", name, known));
}

}  // namespace um
