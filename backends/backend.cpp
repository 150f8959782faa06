#include "backends/backend.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace um {

std::string_view to_text(launch_way way) {
  constexpr std::array<std::string_view, 4> names{"simulated", "streams", "operator_graphs", "cuda_graph"};
  return names.at(static_cast<std::size_t>(way));
}

std::vector<op_cost> backend::measure(const graph& g, std::span<const compute> what) {
  const profile whole = measure(g);
  const machine on = describe();
  std::vector<op_cost> costs;
  for (const compute& c : what) costs.push_back(cost_of(g, whole, on, {}, c));
  return costs;
}

slice_costs costs_of_slices(backend& by, const graph& g) {
  std::vector<std::vector<std::pair<compute, op_cost>>> known(g.ops.size());
  return [&by, &g, known](const compute& c) mutable {
    std::vector<std::pair<compute, op_cost>>& of_one = known.at(c.what);
    const auto found = std::ranges::find(of_one, c, &std::pair<compute, op_cost>::first);
    if (found != of_one.end()) return found->second;
    return of_one.emplace_back(c, by.measure(g, {&c, 1}).front()).second;
  };
}

}  // namespace um
