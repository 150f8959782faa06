// Time is continuous where memory is just full (docs/method/simulator.md, "Just above ratio 1").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "hints/hints.hpp"
#include "networks/catalogue.hpp"
#include "planners/planners.hpp"
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

nanoseconds time_of(const pattern& p, double ratio) {
  return p.at_ratio(with_driver_costs(), ratio).traffic.time;
}

// Of bringing nearly all of the data once, with room for all of it.
nanoseconds all_once(const pattern& p) {
  const std::size_t stem = std::min(p.name.find("_under_pressure"), p.name.find("_partly_resident"));
  const pattern* partly = find_pattern(std::string(p.name.substr(0, stem)) + "_partly_resident");
  return partly == nullptr ? time_of(p, 1.0) : time_of(*partly, 128);
}

// The driver evicts what is needed next, so everything comes as soon as anything is over.
bool sweeps_cyclically(const pattern& p) {
  constexpr std::array sweeps{"waves_under_pressure", "grid_stride_under_pressure",
                              "block_strided_under_pressure", "pointer_chase_under_pressure",
                              "prefetch_under_pressure"};
  return std::ranges::find(sweeps, p.name) != sweeps.end();
}

TEST(patterns, take_no_step_from_ratio_1_to_1_01_but_cyclic_sweeps) {
  std::size_t with_ratio = 0;
  for (const pattern& p : patterns()) {
    if (p.at_ratio == nullptr) continue;
    ++with_ratio;
    const nanoseconds full = time_of(p, 1.0), over = time_of(p, 1.01);
    if (sweeps_cyclically(p)) {
      const nanoseconds far = time_of(p, 2);
      EXPECT_GT(over * 10, far * 9) << p.name;
      EXPECT_LT(over * 9, far * 10) << p.name;
    } else {
      EXPECT_LE(over, full + std::max(full, all_once(p)) / 10) << p.name;
    }
  }
  EXPECT_GE(with_ratio, 18U);
}

// Where threads access in no order.
TEST(patterns, wait_only_for_what_is_over_and_longer_with_less_room) {
  constexpr std::array ratios{1.0, 1.01, 1.1, 1.25, 1.5, 2.0};
  for (const pattern& p : patterns()) {
    if (p.worst_order == nullptr) continue;
    EXPECT_EQ(time_of(p, ratios[0]), 0) << p.name;
    for (std::size_t i = 1; i < ratios.size(); ++i)
      EXPECT_GT(time_of(p, ratios[i]), time_of(p, ratios[i - 1])) << p.name;
  }
}

// The unkindest order brings more, at most everything in every access.
TEST(patterns, take_longer_if_hits_do_not_run_ahead) {
  std::size_t unknown = 0;
  for (const pattern& p : patterns()) {
    if (p.worst_order == nullptr) continue;
    ++unknown;
    for (const double ratio : {1.1, 1.25})
      EXPECT_GT(p.worst_order(with_driver_costs(), ratio).traffic.time, time_of(p, ratio)) << p.name;
    EXPECT_EQ(p.worst_order(with_driver_costs(), 1.0).traffic.time, 0) << p.name;
  }
  EXPECT_EQ(unknown, 2U);
}

std::vector<strategy> managed_strategies() {
  std::vector<strategy> all(hint_strategies().begin(), hint_strategies().end());
  std::ranges::copy_if(planners(), std::back_inserter(all),
                       [](const strategy& s) { return s.name == "best_managed"; });
  return all;
}

class managed_strategies_on : public ::testing::TestWithParam<network_spec> {};

// Means of later iterations, which may alternate.
struct later {
  nanoseconds time = 0;
  byte_count moved = 0;  // to the device, and over the link
};

later later_iterations(const problem& p, const strategy& s) {
  constexpr std::uint32_t before = 4, counted = 4;
  const std::vector<trace> all = simulate(p, lower(p, s.plan(p), s.packing_algorithm), before + counted);
  later sum;
  for (auto t = all.begin() + before; t != all.end(); ++t) {
    sum.time += t->duration;
    sum.moved += t->counts.fault_to_device_bytes.value_or(0) +
                 t->counts.prefetch_to_device_bytes.value_or(0) + t->counts.copy_to_device_bytes.value_or(0) +
                 t->counts.remote_bytes.value_or(0);
  }
  return {sum.time / counted, sum.moved / counted};
}

// A step above a tenth is data that comes again: what kernels and calls sweep leaves shortly before its turn
// once the memory was filled. Nothing else takes a step, so the time grows with what comes, at the pace of
// faults that displace a block each.
TEST_P(managed_strategies_on, take_a_step_from_ratio_1_to_1_01_only_for_data_that_comes_again) {
  const graph g = build_network(GetParam());
  machine on = with_driver_costs();
  on.fp32_flops_per_s = 50'000'000'000'000;  // so that what moves decides
  on.device_bytes_per_s = blocks_per_ms(2000);
  const profile costs = estimate(g, on);
  const byte_count footprint = footprint_of(g, costs).total;
  const pattern_result sweep = find_pattern("waves_under_pressure")->at_ratio(on, 2);
  const double each = static_cast<double>(sweep.traffic.time) / static_cast<double>(sweep.bytes);
  std::size_t ran = 0, steps = 0;
  for (const strategy& s : managed_strategies()) {
    const auto within = [&](byte_count budget) {
      return later_iterations({g, costs, on, budget, evictor::driver, complete_knobs(s, {})}, s);
    };
    try {
      const later full = within(footprint), over = within(footprint * 100 / 101);
      const byte_count again = std::max(over.moved, full.moved) - full.moved;
      EXPECT_LE(static_cast<double>(over.time),
                1.1 * static_cast<double>(full.time) + each * static_cast<double>(again))
          << s.name << ": " << again << " bytes come again";
      ++ran;
      steps += over.time * 10 > full.time * 11 ? 1U : 0U;
    } catch (const infeasible&) {
      continue;
    }
  }
  EXPECT_GE(ran, 14U);
  EXPECT_LE(steps * 3, ran);
}

INSTANTIATE_TEST_SUITE_P(networks, managed_strategies_on,
                         ::testing::Values(network_spec{.name = "resnet18_cifar", .batch = 64},
                                           network_spec{.name = "vgg13", .batch = 16}));
INSTANTIATE_TEST_SUITE_P(more, managed_strategies_on,
                         ::testing::Values(network_spec{.name = "alexnet", .batch = 32},
                                           network_spec{.name = "vgg11_cifar", .batch = 64}));

}  // namespace
}  // namespace um
