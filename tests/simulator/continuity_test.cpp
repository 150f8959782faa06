// Time is continuous where memory is just full (docs/simulator.md, "Just above ratio 1").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/layout.hpp"
#include "hints/hints.hpp"
#include "networks/catalogue.hpp"
#include "simulator/patterns.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

machine with_driver_costs() {
  machine on = round_machine();
  on.uvm.batch_ns = 20'000;
  on.uvm.fault_ns = 100;
  on.uvm.service_ns = 5'000;
  on.uvm.granule_ns = 300;
  on.uvm.chunk_ns = 1'000;
  on.uvm.evict_ns = 40'000;
  on.uvm.migrate_copy_ns = 1'000;
  return on;
}

nanoseconds time_at_ratio(const std::string& name, double ratio) {
  return find_pattern(name)->at_ratio(with_driver_costs(), ratio).traffic.time;
}

class live_at_once : public ::testing::TestWithParam<const char*> {
 protected:
  nanoseconds pressed(double ratio) const {
    return time_at_ratio(std::string(GetParam()) + "_under_pressure", ratio);
  }
  // Of bringing nearly all of the data once, with room for all of it.
  nanoseconds all_once() const { return time_at_ratio(std::string(GetParam()) + "_partly_resident", 128); }
};

TEST_P(live_at_once, waits_only_for_what_is_over) {
  EXPECT_EQ(pressed(1.0), 0);
  EXPECT_GT(pressed(1.01), 0);
  EXPECT_LE(pressed(1.01), all_once() / 10);
}

TEST_P(live_at_once, takes_longer_with_less_room) {
  constexpr std::array ratios{1.0, 1.01, 1.1, 1.25, 1.5, 2.0};
  for (std::size_t i = 1; i < ratios.size(); ++i) EXPECT_GT(pressed(ratios[i]), pressed(ratios[i - 1]));
}

INSTANTIATE_TEST_SUITE_P(patterns, live_at_once,
                         ::testing::Values("grid_stride", "chunk_a_thread", "random", "sparse_pages"));

// Cyclic sweeps: the driver evicts what is needed next, so everything comes as soon as anything is over.
TEST(cyclic_sweeps, take_as_long_a_little_over_as_far_over) {
  for (const char* name : {"waves_under_pressure", "pointer_chase_under_pressure"}) {
    const nanoseconds little = time_at_ratio(name, 1.01), much = time_at_ratio(name, 2);
    EXPECT_GT(little * 10, much * 9) << name;
    EXPECT_LT(little * 9, much * 10) << name;
  }
}

TEST(managed_strategies, take_no_step_from_ratio_1_to_1_01) {
  const graph g = build({.name = "alexnet", .batch = 32});
  const machine on = with_driver_costs();
  const profile costs = estimate(g, on);
  const byte_count footprint = footprint_of(g, costs).total;
  const byte_count over = footprint - footprint * 100 / 101;
  // What is over may come and leave for each operator that reads it, forward and backward.
  const nanoseconds moved = 4 * time_at(over, on.link_to_device_bytes_per_s);
  for (const strategy& s : hints()) {
    const auto later_iteration = [&](byte_count budget) {
      const problem p{g, costs, on, budget, pressure::driver, complete(s, {})};
      return simulate(p, lower(p, s.plan(p)), 4).back().duration;
    };
    try {
      const nanoseconds full = later_iteration(footprint);
      EXPECT_LE(later_iteration(footprint - over), full + full / 10 + moved) << s.name;
    } catch (const infeasible&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace um
