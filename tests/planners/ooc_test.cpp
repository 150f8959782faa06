// ooc_cuDNN: its performance model against the formulas as published, its calls, and the plans.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/simulator_backend.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "planners/ooc_cudnn.hpp"
#include "planners/ooc_stream.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"
#include "tests/planners/small_networks.hpp"
#include "tests/schedule/random_decisions.hpp"

namespace {

using namespace um;
using namespace um::testing;

// --- the model ---

TEST(ooc_model, forward_follows_what_is_slowest) {
  // The copy back: parts are 3 * 4 * 2.
  EXPECT_EQ(forward_time({10, 20, 100, 18, 90}, {3, 2, 1, 4}), (10 + 20) + 24 * 100);
  // Computing, with channels of x in five: 24 * 5 kernels.
  EXPECT_EQ(forward_time({10, 20, 100, 18, 90}, {3, 2, 5, 4}), 10 + 24 * 5 * 20 + 90);
  // Copies to the device.
  EXPECT_EQ(forward_time({30, 20, 25, 18, 22}, {3, 2, 1, 4}), 24 * 30 + 18 + 22);
}

TEST(ooc_model, backward_is_the_most_of_three_bounds) {
  const backward_part_times in{50, 40, 10, 5, 6, 9, 4, 5}, computing{5, 4, 100, 5, 6, 90, 4, 5},
      out{5, 4, 10, 50, 60, 9, 45, 55};
  const division d{2, 3, 4, 5};  // 24 outer parts, 5 inner ones
  EXPECT_EQ(backward_time(in, d), 24 * (50 + 5 * 40) + 9 + 4 + 5);
  EXPECT_EQ(backward_time(computing, d), 5 + 4 + 24 * 5 * 100 + 4 + 5);
  EXPECT_EQ(backward_time(out, d), 5 + 5 * (4 + 10) + 24 * (5 * 50 + 60));
}

TEST(ooc_model, output_channels_count_in_multiples_of_32) {
  EXPECT_DOUBLE_EQ(share_of_channels(33, 128, true), 0.5);
  EXPECT_DOUBLE_EQ(share_of_channels(33, 66, false), 0.5);
  EXPECT_EQ(part_time(1'000, 100, 0.5), 100 + 450);
  EXPECT_EQ(part_time(1'000, 100, 1), 1'000);
}

TEST(ooc_model, goes_over_batch_rows_and_channels_once_in_that_order) {
  std::vector<division> asked;
  const auto best =
      best_division({8, 4, 6, 5}, forward_order, [&](const division& d) -> std::optional<nanoseconds> {
        asked.push_back(d);
        return std::abs(nanoseconds{d.n} - 3) + std::abs(nanoseconds{d.h} - 2) + d.xc + d.yc;
      });
  EXPECT_EQ(best, (division{3, 2, 1, 1}));
  // The whole, then every count that makes the largest part smaller: of 8 not 5, 6 and 7.
  const std::vector<division> first{{1, 1, 1, 1}, {1, 1, 1, 1}, {2, 1, 1, 1}, {3, 1, 1, 1},
                                    {4, 1, 1, 1}, {8, 1, 1, 1}, {3, 1, 1, 1}, {3, 2, 1, 1}};
  ASSERT_GT(asked.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), asked.begin()));
}

TEST(ooc_model, cuts_several_coordinates_where_none_alone_makes_parts_that_fit) {
  const auto fits = [](const division& d) -> std::optional<nanoseconds> {
    if (d.n < 4 || d.yc < 3) return std::nullopt;
    return nanoseconds{d.n} * d.yc;
  };
  EXPECT_EQ(best_division({16, 1, 1, 8}, forward_order, fits), (division{4, 1, 1, 3}));
  EXPECT_EQ(best_division({2, 1, 1, 8}, forward_order, fits), std::nullopt);
}

// --- calls ---

std::vector<std::string> names_of(const graph& g, const std::vector<ooc_call>& calls) {
  std::vector<std::string> all;
  for (const ooc_call& c : calls) {
    all.emplace_back();
    for (op_id o = c.begin; o < c.end; ++o)
      all.back() += (o > c.begin ? " + " : "") + std::string(kind_of(g.ops[o].attributes));
  }
  return all;
}

TEST(ooc_calls, join_what_a_fused_function_computes) {
  const graph g = build_network(small_spec("vgg11", 2, {.fusion_mode = fusion::none}));
  const std::vector<std::string> calls = names_of(g, calls_of(g));
  const auto count = [&](const std::string& name) { return std::ranges::count(calls, name); };
  EXPECT_EQ(count("convolution + relu + max_pool"), 5);
  EXPECT_EQ(count("convolution + relu"), 3);
  const std::string gradients = "relu_backward + convolution_backward_filter + bias_backward";
  EXPECT_EQ(count("max_pool_backward + " + gradients + " + convolution_backward_data"), 4);
  EXPECT_EQ(count("max_pool_backward + " + gradients), 1) << "of the first layer";
  EXPECT_EQ(count(gradients + " + convolution_backward_data"), 3);
  op_id next = 0;
  for (const ooc_call& c : calls_of(g)) {
    EXPECT_EQ(c.begin, next);
    next = c.end;
  }
  EXPECT_EQ(next, g.ops.size());
}

// Whatever the division, all parts together are the operators: proved by the symbolic machine.
void expect_every_division_sound(const network_spec& spec, std::initializer_list<division> how) {
  const graph g = build_network(spec);
  for (const division& d : how) {
    for (const bool joined : {true, false}) {
      for (const residence home : {residence::staged, residence::device}) {
        std::vector<std::vector<ooc_step>> steps;
        std::size_t cut = 0;
        for (const ooc_call& c : calls_of(g)) {
          const division most = max_division(g, c);
          const division by{std::min(d.n, most.n), std::min(d.h, most.h), std::min(d.xc, most.xc),
                            std::min(d.yc, most.yc)};
          cut += by == d ? 1 : 0;
          steps.push_back(steps_of(g, c, by));
        }
        EXPECT_GT(cut, 0U);
        std::vector<residence> homes;
        for (const tensor& t : g.tensors)
          homes.push_back(t.role == role::activation_gradient && t.name.find("conv") != std::string::npos
                              ? residence::device
                              : home);
        const memory_plan plan = stream_calls(g, homes, steps, joined);
        EXPECT_EQ(defect_of(g, plan), std::nullopt) << spec.name << " n" << d.n << " h" << d.h << " xc"
                                                    << d.xc << " yc" << d.yc << (joined ? " joined" : "");
      }
    }
  }
}

TEST(ooc_calls, can_be_cut_along_every_axis) {
  const auto divisions = {division{2, 1, 1, 1}, division{1, 3, 1, 1}, division{1, 1, 2, 1},
                          division{1, 1, 1, 3}, division{2, 3, 1, 1}, division{2, 3, 2, 3}};
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    network_spec one = small_spec(
        "conv", 2,
        {.fusion_mode = fusion::none,
         .knobs = {{"c", 4}, {"h", 9}, {"w", 9}, {"k", 6}, {"kernel", 3}, {"stride", 1}, {"pad", 1}}});
    one.order = order;
    expect_every_division_sound(one, divisions);
    network_spec vgg = small_spec("vgg11", 2, {.fusion_mode = fusion::none, .knobs = {{"insize", 32}}});
    vgg.order = order;
    expect_every_division_sound(vgg, divisions);
  }
}

// --- plans ---

struct ooc_cell {
  explicit ooc_cell(graph network) : g(std::move(network)), costs(estimate(g, on)) {}
  explicit ooc_cell(const network_spec& spec) : ooc_cell(build_network(spec)) {}
  problem with(byte_count budget, std::int64_t keep) const {
    return {
        g, costs, on, budget, evictor::none, {{"keep", keep}, {"share", 90}}, make_slice_estimator(g, on)};
  }
  problem at(double ratio, std::int64_t keep) const {
    return with(static_cast<byte_count>(static_cast<double>(footprint_of(g, costs).total) / ratio), keep);
  }

  graph g;
  machine on = test_machine();
  profile costs;
};

nanoseconds time_of(const problem& p, const memory_plan& plan) {
  return simulate(p, lower(p, plan), 2).back().duration;
}

bool divides(const memory_plan& plan) {
  return std::ranges::any_of(plan.actions, [](const action& a) {
    const auto* c = std::get_if<compute>(&a);
    return c != nullptr && !is_whole(c->part);
  });
}

class ooc_plans : public ::testing::TestWithParam<std::string> {};

// What strategies_test asks of every strategy, where results stay for the next call.
TEST_P(ooc_plans, keep_within_the_budget_where_results_stay) {
  const ooc_cell c(small_graph(GetParam()));
  for (const double ratio : {1.25, 3.0}) {
    const problem p = c.at(ratio, 1);
    try {
      const memory_plan plan = plan_ooc_cudnn(p);
      EXPECT_EQ(defect_of(c.g, plan), std::nullopt);
      EXPECT_LE(lower(p, plan).device_arena_bytes, p.budget);
      EXPECT_TRUE(plan.joins.empty());
    } catch (const infeasible& refused) {
      EXPECT_NE(std::string(refused.what()).find("the budget is " + to_text(p.budget)), std::string::npos)
          << refused.what();
    }
  }
}

// Not only since such a plan is never asked for: its placement and its model decide so, too.
TEST_P(ooc_plans, divide_nothing_that_fits) {
  const ooc_cell c(small_graph(GetParam()));
  for (const std::int64_t keep : {0, 1}) {
    const memory_plan plan = plan_ooc_cudnn(c.at(1, keep));
    EXPECT_FALSE(divides(plan));
    EXPECT_EQ(plan, plan_resident(c.at(1, keep)));
  }
  const problem p = c.at(0.5, 0);
  const std::vector<ooc_call> calls = calls_of(c.g);
  const ooc_placement at = place_first_come(c.g, calls, p.budget, p.budget / 100 * 90);
  std::vector<std::vector<ooc_step>> steps;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    byte_count least = 0;
    const auto parts = steps_within(p, calls[i], at, at.free_bytes[i], least);
    ASSERT_TRUE(parts.has_value()) << i;
    EXPECT_EQ(parts->size(), 1U) << i;
    steps.push_back(*parts);
  }
  memory_plan plan = stream_calls(c.g, at.home, steps, true);
  EXPECT_FALSE(divides(plan));
  EXPECT_EQ(plan, plan_resident(p)) << "nothing moves, nobody joins";
}

INSTANTIATE_TEST_SUITE_P(catalogue, ooc_plans, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

// As a GPU says of itself that nobody has calibrated: neither launches nor copies cost anything there.
TEST(ooc_cudnn, cuts_no_finer_than_it_must_where_the_machine_has_no_figures) {
  const ooc_cell c(small_spec("vgg11", 16, {.fusion_mode = fusion::none, .knobs = {{"insize", 64}}}));
  machine unknown;
  unknown.device_bytes = c.on.device_bytes;
  unknown.host_bytes = c.on.host_bytes;
  for (const std::int64_t keep : {0, 1}) {
    for (const byte_count part : {2, 3, 6, 12, 25}) {
      const byte_count budget = footprint_of(c.g, c.costs).total / part;
      const problem p{c.g,
                      c.costs,
                      unknown,
                      budget,
                      evictor::none,
                      {{"keep", keep}, {"share", 80}},
                      make_slice_estimator(c.g, c.on)};
      try {
        const memory_plan plan = plan_ooc_cudnn(p);
        EXPECT_EQ(defect_of(c.g, plan), std::nullopt);
        EXPECT_LE(lower(p, plan).device_arena_bytes, budget);
        if (part <= 12) {
          EXPECT_LT(plan.actions.size(), 100 * c.g.ops.size()) << part << " keep " << keep;
        }
      } catch (const infeasible& refused) {
        EXPECT_GT(part, 3U) << refused.what();
        EXPECT_NE(std::string(refused.what()).find("the budget is " + to_text(budget)), std::string::npos)
            << refused.what();
      }
    }
  }
}

// The paper's first experiment: a convolution of 1024 x 1024, batch 1, ever more channels, 16 GB.
TEST(ooc_cudnn, computes_convolutions_of_any_size) {
  for (const std::int64_t channels : {512, 1024, 1536, 2048, 3072, 4096}) {
    const ooc_cell c(small_spec("conv", 1,
                                {.mode = pass::inference,
                                 .knobs = {{"c", channels},
                                           {"h", 1024},
                                           {"w", 1024},
                                           {"k", channels},
                                           {"kernel", 3},
                                           {"stride", 1},
                                           {"pad", 1}}}));
    const problem p = c.with(16'000'000'000, 0);
    const memory_plan plan = plan_ooc_cudnn(p);
    const execution_plan steps = lower(p, plan);
    EXPECT_LE(steps.device_arena_bytes, p.budget) << channels;
    EXPECT_EQ(divides(plan), footprint_of(c.g, c.costs).total > p.budget) << channels;
    EXPECT_LE(simulate(p, steps, 1).front().duration, c.costs[0].time * 11 / 10)
        << "copies hide: " << channels;
  }
}

TEST(ooc_cudnn, joins_where_calls_end_and_keep_does_not) {
  const ooc_cell c(small_spec("vgg11", 8, {.fusion_mode = fusion::none}));
  const problem published = c.at(3, 0), kept = c.at(3, 1);
  const memory_plan plan = plan_ooc_cudnn(published), other = plan_ooc_cudnn(kept);
  EXPECT_GT(plan.joins.size(), 10U);
  EXPECT_TRUE(std::ranges::is_sorted(plan.joins));
  EXPECT_LT(time_of(kept, other), time_of(published, plan));
}

TEST(ooc_cudnn, places_tensors_first_come_first_served) {
  const ooc_cell c(small_spec("vgg11", 8, {.fusion_mode = fusion::none}));
  const std::vector<ooc_call> calls = calls_of(c.g);
  const byte_count room = footprint_of(c.g, c.costs).total / 2, most = room / 10 * 9;
  const ooc_placement at = place_first_come(c.g, calls, room, most);
  byte_count taken = 0;
  for (tensor_id t = 0; t < c.g.tensors.size(); ++t) {
    if (!persists(c.g.tensors[t].role)) continue;
    const byte_count bytes = round_up(bytes_of(c.g.tensors[t]), arena_alignment);
    const bool fits = bytes < most - taken;
    EXPECT_EQ(at.home[t] == residence::device, fits) << c.g.tensors[t].name;
    taken += fits ? bytes : 0;
  }
  EXPECT_TRUE(std::ranges::count(at.home, residence::staged) > 0);
  for (const byte_count left : at.free_bytes) EXPECT_GE(left, room - most);
  const ooc_placement all = place_first_come(c.g, calls, 10 * room, 10 * room);
  EXPECT_EQ(std::ranges::count(all.home, residence::staged), 0);
}

TEST(ooc_cudnn, copies_a_filter_at_home_again_for_each_part_but_not_where_it_keeps) {
  const ooc_cell c(small_spec(
      "conv", 4,
      {.mode = pass::inference,
       .knobs = {{"c", 32}, {"h", 32}, {"w", 32}, {"k", 32}, {"kernel", 3}, {"stride", 1}, {"pad", 1}}}));
  const std::vector<ooc_call> calls = calls_of(c.g);
  const std::vector<std::vector<ooc_step>> steps{steps_of(c.g, calls[0], {4, 1, 1, 1})};
  const std::vector<residence> home(c.g.tensors.size(), residence::staged);
  const auto filters = [&](bool joined) {
    const memory_plan plan = stream_calls(c.g, home, steps, joined);
    return std::ranges::count_if(plan.actions, [&](const action& a) {
      const auto* x = std::get_if<prefetch>(&a);
      return x != nullptr && c.g.tensors[x->tensor].name == "conv.w";
    });
  };
  EXPECT_EQ(filters(true), 4);
  EXPECT_EQ(filters(false), 1);
}

}  // namespace
