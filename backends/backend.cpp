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

// Parts with equally many images cost the same, except that the first part writes results to which others
// add.
compute representative_part(compute c) {
  if (is_all(c.part.batch)) return c;
  const std::int64_t first = c.part.batch.begin == 0 ? 0 : 1;
  c.part.batch = {first, first + c.part.batch.size()};
  return c;
}

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
    const auto found = std::ranges::find(of_one, representative_part(c), &std::pair<compute, op_cost>::first);
    if (found != of_one.end()) return found->second;
    return of_one.emplace_back(representative_part(c), measured_cost(by, g, c)).second;
  };
}

}  // namespace um
