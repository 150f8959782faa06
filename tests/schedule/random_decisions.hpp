// Decisions by dice, and networks to take them on.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "schedule/forecast.hpp"
#include "schedule/orders.hpp"
#include "simulator/roofline.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace um::testing {

class on_small_network : public ::testing::TestWithParam<std::string> {
 protected:
  graph g = small_graph(GetParam());
  machine on = test_machine();
  profile costs = estimate(g, on);
  problem p{
      g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}, make_slice_estimator(g, on)};
};

// Problems within a share of the footprint, on a machine that manages memory.
class within_ratio : public ::testing::TestWithParam<std::string> {
 protected:
  graph g = small_graph(GetParam());
  machine on = managed_test_machine();
  profile costs = estimate(g, on);
  byte_count footprint = footprint_of(g, costs).total;

  problem at(double ratio, knob_values knobs) {
    const auto budget = static_cast<byte_count>(static_cast<double>(footprint) / ratio);
    return {g, costs, on, budget, evictor::none, std::move(knobs), make_slice_estimator(g, on)};
  }
};

// One out of `rarity` gaps is not kept.
inline std::vector<decision> random_decisions(const std::vector<gap>& gaps, std::mt19937& dice,
                                              unsigned rarity) {
  std::vector<decision> all(gaps.size());
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (dice() % rarity != 0) continue;
    const auto between = [&] {
      return gaps[i].last_use +
             static_cast<position>(dice() % static_cast<unsigned>(gaps[i].next_use - gaps[i].last_use + 1));
    };
    const bool again = gaps[i].is_recomputable && dice() % 2 == 0;
    all[i] = {again ? gap_choice::recompute : gap_choice::swap, between(), between()};
    if (dice() % 2 == 0) all[i].leave_after = gaps[i].last_use;
    if (dice() % 2 == 0) all[i].return_before = gaps[i].next_use;
  }
  return all;
}

// Whole, in micro-batches, with an inner loop: as many as the network allows.
inline std::vector<loop_nest> loops_for(const graph& g) {
  std::vector<loop_nest> all{{}, {1, {}, ops_with_large_parameter_gradients(g)}};
  const auto count = static_cast<op_id>(g.ops.size());
  const std::int64_t images = g.tensors[g.ops.front().in.front()].shape.n;
  for (const std::uint32_t k : {2U, 4U}) {
    if (images % (2 * k) != 0 || g.name.starts_with("res")) continue;
    all.push_back({k, {}, {}});
    if (can_split_batch(g, g.ops[count / 2], 2 * k) && can_split_batch(g, g.ops[count / 2 + 1], 2 * k))
      all.push_back({1, {{count / 2, count / 2 + 2, k}}, ops_with_large_parameter_gradients(g)});
  }
  return all;
}

}  // namespace um::testing
