// The whole simulated backend on plans that lower() made.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "backends/simulator_backend.hpp"
#include "core/errors.hpp"
#include "networks/catalogue.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

memory_plan all_at(const graph& g, residence home) {
  memory_plan p;
  p.residences.assign(g.tensors.size(), home);
  for (op_id o = 0; o < g.ops.size(); ++o) p.actions.emplace_back(compute{o, {}});
  return p;
}

nanoseconds sum_of(const profile& p) {
  return std::accumulate(p.begin(), p.end(), nanoseconds{0},
                         [](nanoseconds sum, const op_cost& c) { return sum + c.time; });
}

class simulated_alexnet : public testing::Test {
 protected:
  graph g = build_network({.name = "alexnet", .batch = 16});
  std::unique_ptr<backend> b = open_simulator(round_machine());
  machine on = b->describe();
  profile costs = b->measure_operators(g);

  execution managed(byte_count budget, execution_request how) {
    const problem p{g, costs, on, budget, evictor::driver, {}};
    return b->execute(g, lower(p, all_at(g, residence::managed)), how);
  }
};

TEST_F(simulated_alexnet, with_everything_resident_takes_the_sum_of_its_operators) {
  const execution_plan plan =
      lower({g, costs, on, on.device_bytes, evictor::none, {}}, all_at(g, residence::device));
  const execution e = b->execute(g, plan, {.iterations = 2});
  ASSERT_EQ(e.iterations.size(), 2U);
  for (const trace& t : e.iterations) EXPECT_EQ(t.duration, sum_of(costs));
  EXPECT_FALSE(e.digest.has_value()) << "nothing is computed";
  EXPECT_FALSE(e.loss.has_value());
}

TEST_F(simulated_alexnet, managed_and_fitting_is_slow_once) {
  const execution e = managed(on.device_bytes, {.iterations = 3});
  EXPECT_GT(e.iterations[0].duration, sum_of(costs));
  EXPECT_EQ(e.iterations[1].duration, sum_of(costs));
  EXPECT_EQ(e.iterations[2].duration, sum_of(costs));
}

TEST_F(simulated_alexnet, slows_down_as_the_budget_shrinks) {
  const byte_count whole = footprint_of(g, costs).total;
  nanoseconds last = sum_of(costs) - 1;
  for (const byte_count budget : {2 * whole, whole * 2 / 3, whole / 3}) {
    const execution e = managed(budget, {.iterations = 4, .records_timeline = true});
    EXPECT_GT(e.iterations[3].duration, last);
    last = e.iterations[3].duration;
    for (const memory_sample& s : e.iterations[3].memory_samples) EXPECT_LE(s.bytes, budget);
  }
}

TEST_F(simulated_alexnet, a_band_holds_what_is_simulated_and_both_orders) {
  const byte_count budget = footprint_of(g, costs).total * 10 / 12;
  const execution e = managed(budget, {.iterations = 4, .computes_time_band = true});
  ASSERT_TRUE(e.band.has_value());
  const nanoseconds last = e.iterations.back().duration;
  EXPECT_LE(e.band->low, last);
  EXPECT_GE(e.band->high, last);
  EXPECT_LT(e.band->low, e.band->high);
  EXPECT_GE(e.band->low, sum_of(costs));
  on.uncertain_figures = {{"uvm.evict_ns", 0, 1'000'000}};
  b = open_simulator(on);
  const execution wide = managed(budget, {.iterations = 4, .computes_time_band = true});
  EXPECT_EQ(wide.iterations.back().duration, last) << "a width changes the band alone";
  EXPECT_GT(wide.band->high, e.band->high);
  EXPECT_FALSE(managed(budget, {.iterations = 4}).band.has_value()) << "only where it is asked for";
}

TEST_F(simulated_alexnet, what_comes_in_goes_out_once_it_is_steady) {
  const trace t = managed(footprint_of(g, costs).total / 2, {.iterations = 6}).iterations.back();
  EXPECT_EQ(t.counts.fault_to_device_bytes, t.counts.driver_evict_bytes);
  EXPECT_GT(t.counts.driver_evict_bytes, 0U);
  EXPECT_GE(*t.counts.evicted_blocks * managed_block, t.counts.driver_evict_bytes);
}

// Against the list of steps, which says what is in use after each of them.
TEST_F(simulated_alexnet, a_timeline_of_swapping_never_shows_less_than_what_stays) {
  problem p{g, costs, on, on.device_bytes, evictor::driver, {{"ahead", 2}}};
  const execution_plan plan = lower(p, plan_swap_all(p));
  const trace t = b->execute(g, plan, {.iterations = 2, .records_timeline = true}).iterations.back();
  byte_count least = plan.steps.back().resident_bytes;
  for (const step& s : plan.steps) least = std::min(least, s.resident_bytes);
  EXPECT_GE(least, bytes_of(g, role::parameter));
  for (const memory_sample& s : t.memory_samples) EXPECT_GE(s.bytes, least) << s.time;
  for (const memory_sample& s : t.memory_samples) EXPECT_LE(s.bytes, plan.device_arena_bytes) << s.time;
  EXPECT_EQ(t.memory_samples.back().bytes, plan.steps.back().resident_bytes);
}

TEST_F(simulated_alexnet, swapping_gets_no_slower_with_room) {
  nanoseconds tighter = std::numeric_limits<nanoseconds>::max();
  const byte_count whole = footprint_of(g, costs).total;
  for (const byte_count percent : {99U, 100U, 102U, 105U, 110U, 120U, 150U, 200U}) {
    const problem p{g, costs, on, whole * percent / 100, evictor::driver, {{"ahead", 2}}};
    const nanoseconds time =
        b->execute(g, lower(p, plan_swap_all(p)), {.iterations = 2}).iterations.back().duration;
    EXPECT_LE(time, tighter) << percent;
    tighter = time;
  }
}

TEST_F(simulated_alexnet, two_runs_are_equal) {
  const execution_request how{.iterations = 3, .records_timeline = true};
  const byte_count budget = footprint_of(g, costs).total / 2;
  const execution a = managed(budget, how), c = managed(budget, how);
  for (std::size_t i = 0; i < a.iterations.size(); ++i) {
    const trace &x = a.iterations[i], &y = c.iterations[i];
    EXPECT_EQ(x.duration, y.duration);
    EXPECT_EQ(x.counts.faults, y.counts.faults);
    EXPECT_EQ(x.counts.driver_evict_bytes, y.counts.driver_evict_bytes);
    ASSERT_EQ(x.spans.size(), y.spans.size());
    for (std::size_t s = 0; s < x.spans.size(); ++s) EXPECT_EQ(x.spans[s].end, y.spans[s].end);
    ASSERT_EQ(x.memory_samples.size(), y.memory_samples.size());
  }
}

// As Caffe keeps them: VGG-19 of 110 images fits 16 GB, of 120 no more (Awan et al., HiPC 2018).
TEST(framework_layout, keeps_data_and_gradient_of_every_layer_apart) {
  const auto bytes = [](fusion joined, std::int64_t batch) {
    const graph g = build_network({.name = "vgg19", .batch = batch, .fusion_mode = joined});
    return footprint_of(g, estimate(g, round_machine())).total;
  };
  EXPECT_GT(bytes(fusion::framework, 110), bytes(fusion::none, 110) * 17 / 10);
  EXPECT_LT(bytes(fusion::framework, 110), 15.5 * GiB);
  EXPECT_GT(bytes(fusion::framework, 120), 15.5 * GiB);
}

TEST(framework_layout, runs_and_gets_slower_under_pressure) {
  const graph g = build_network({.name = "alexnet", .batch = 16, .fusion_mode = fusion::framework});
  const machine on = round_machine();
  const std::unique_ptr<backend> b = open_simulator(on);
  const profile costs = b->measure_operators(g);
  const byte_count whole = footprint_of(g, costs).total;
  const nanoseconds operators = sum_of(costs);
  const problem tight{g, costs, on, whole * 2 / 3, evictor::driver, {}};
  const execution e = b->execute(g, lower(tight, all_at(g, residence::managed)), {.iterations = 3});
  EXPECT_GT(e.iterations.back().duration, operators);
  const problem fits{g, costs, on, on.device_bytes, evictor::none, {}};
  const execution_plan plan = lower(fits, all_at(g, residence::device));
  EXPECT_EQ(plan.device_arena_bytes, whole);
  EXPECT_EQ(b->execute(g, plan, {}).iterations.front().duration, operators);
}

TEST_F(simulated_alexnet, beyond_the_machine_runs_out_of_memory) {
  execution_plan plan =
      lower({g, costs, on, on.device_bytes, evictor::none, {}}, all_at(g, residence::device));
  plan.device_arena_bytes = on.device_bytes + 1;
  EXPECT_THROW(b->execute(g, plan, {}), out_of_memory);
  plan.device_arena_bytes = 0;
  plan.pinned_arena_bytes = on.host_bytes + 1;
  EXPECT_THROW(b->execute(g, plan, {}), out_of_memory);
}

}  // namespace
}  // namespace um
