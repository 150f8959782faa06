#include "backends/backend.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace um {

std::string_view to_text(launch_mode way) {
  constexpr std::array<std::string_view, 5> names{"simulated", "streams", "operator_graphs", "stretch_graphs",
                                                  "cuda_graph"};
  return names.at(static_cast<std::size_t>(way));
}

namespace {

// A part that no engine computes in the memory that is free costs an hour, so that planners avoid it.
op_cost measured_cost(backend& by, const graph& g, const compute& c) {
  const op_cost never_worth_it{3'600'000'000'000, 0, {}};
  try {
    return by.measure_operators(g, {&c, 1}).front();
  } catch (const unsupported&) {
    return never_worth_it;
  } catch (const out_of_memory&) {
    return never_worth_it;
  }
}

}  // namespace

slice_costs slice_cost_function(backend& by, const graph& g) {
  using known_costs = std::vector<std::vector<std::pair<compute, op_cost>>>;
  return [&by, &g, known = std::make_shared<known_costs>(g.ops.size())](const compute& c) {
    auto& of_one = known->at(c.op);
    const compute alike = representative_part(g, c);
    const auto found = std::ranges::find(of_one, alike, &std::pair<compute, op_cost>::first);
    if (found != of_one.end()) return found->second;
    return of_one.emplace_back(alike, measured_cost(by, g, c)).second;
  };
}

}  // namespace um
