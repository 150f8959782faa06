#include "backends/backend.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

namespace um {

std::string_view to_text(launch_mode way) {
  constexpr std::array<std::string_view, 5> names{"simulated", "streams", "operator_graphs", "stretch_graphs",
                                                  "cuda_graph"};
  return names.at(static_cast<std::size_t>(way));
}

std::vector<op_cost> backend::measure_operators(const graph& g, std::span<const compute> computes) {
  const profile whole = measure_operators(g);
  const machine m = describe();
  std::vector<op_cost> costs;
  for (const compute& c : computes) costs.push_back(cost_of(g, whole, m, {}, c));
  return costs;
}

namespace {

// Parts with equally many images cost the same, except that the first part writes results to which others
// add.
compute as_slice_size(compute c) {
  if (is_all(c.part.batch)) return c;
  const std::int64_t first = c.part.batch.begin == 0 ? 0 : 1;
  c.part.batch = {first, first + c.part.batch.size()};
  return c;
}

// Uneven cuts have parts that differ by one image. Where that is a tenth or less, one of them is measured.
bool is_one_image_apart(compute known, const compute& asked) {
  constexpr std::int64_t least = 10;
  const interval &one = known.part.batch, &other = asked.part.batch;
  if (is_all(one) || is_all(other) || one.begin != other.begin ||
      std::min(one.size(), other.size()) < least || std::abs(one.size() - other.size()) != 1) {
    return false;
  }
  known.part.batch = asked.part.batch;
  return known == asked;
}

op_cost scaled(op_cost cost, std::int64_t images, std::int64_t of) {
  cost.time = cost.time * images / of;
  return cost;
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
    const auto found = std::ranges::find(of_one, as_slice_size(c), &std::pair<compute, op_cost>::first);
    if (found != of_one.end()) return found->second;
    const auto near = std::ranges::find_if(
        of_one, [&](const auto& k) { return is_one_image_apart(k.first, as_slice_size(c)); });
    if (near != of_one.end()) return scaled(near->second, c.part.batch.size(), near->first.part.batch.size());
    return of_one.emplace_back(as_slice_size(c), measured_cost(by, g, c)).second;
  };
}

}  // namespace um
