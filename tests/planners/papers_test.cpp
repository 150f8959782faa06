// What each of the papers' planners must come to where its method leaves no choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "backends/simulator_backend.hpp"
#include "core/errors.hpp"
#include "core/verify.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/milp/mixed_program.hpp"
#include "tests/machines.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

machine slow_link() {
  machine m = test_machine();
  m.device_bytes = 64 * GiB;
  m.bf16_flops_per_s = m.tf32_flops_per_s;
  return m;
}

struct setting {
  explicit setting(const network_spec& spec, const machine& m = slow_link())
      : g(build_network(spec)), on(m), costs(open_simulator(m)->measure_operators(g)) {}
  problem at(const std::string& name, double ratio, const knob_values& knobs = {}) const {
    const strategy& by = *find_strategy(planners(), name);
    const byte_count footprint = footprint_of(g, costs, by.packing_algorithm).total;
    const auto budget = static_cast<byte_count>(static_cast<double>(footprint) / ratio);
    return {g, costs, on, budget, evictor::none, complete_knobs(by, knobs)};
  }
  memory_plan plan(const std::string& name, double ratio, const knob_values& knobs = {}) const {
    return find_strategy(planners(), name)->plan(at(name, ratio, knobs));
  }
  nanoseconds time(const std::string& name, double ratio, const knob_values& knobs = {}) const {
    const execution_plan e = lower(at(name, ratio, knobs), plan(name, ratio, knobs));
    return open_simulator(on)->execute(g, e, {1, false, false}).iterations[0].duration;
  }

  graph g;
  machine on;
  profile costs;
};

template <class Action>
std::ptrdiff_t count(const memory_plan& plan) {
  return std::ranges::count_if(plan.actions,
                               [](const action& a) { return std::holds_alternative<Action>(a); });
}

TEST(swaps, take_no_less_than_what_must_still_be_fetched) {
  const setting s(small_spec("vgg16_cifar", 100, {.fusion_mode = fusion::none}));
  int fetching = 0;
  for (const std::string name : {"swap_all", "vdnn_all", "vdnn_dyn", "autoswap", "tvdnn"}) {
    for (const double ratio : {1.2, 1.6, 2.2}) {
      try {
        const nanoseconds least = swap_time_lower_bound(s.at(name, ratio)), time = s.time(name, ratio);
        EXPECT_GE(time, least) << name << " " << ratio;
        fetching += 2 * least > time ? 1 : 0;
      } catch (const infeasible&) {
      }
    }
  }
  EXPECT_GT(fetching, 3);
}

TEST(swaps, have_no_time_where_host_memory_is_short_of_what_they_hold_there) {
  setting s(small_spec("vgg16_cifar", 100, {.fusion_mode = fusion::none}));
  constexpr nanoseconds none = std::numeric_limits<nanoseconds>::max();
  for (const std::string name : {"swap_all", "vdnn_all", "autoswap", "tvdnn"}) {
    const problem p = s.at(name, 1.2);
    s.on.host_bytes = lower(p, s.plan(name, 1.2)).pinned_arena_bytes;
    EXPECT_LT(swap_time_lower_bound(p), none) << name;
    s.on.host_bytes = 1;
    EXPECT_EQ(swap_time_lower_bound(p), none) << name;
    s.on.host_bytes = 64 * GiB;
  }
}

TEST(swaps, are_given_up_only_where_they_do_not_beat_a_time) {
  const setting s(small_spec("vgg16_cifar", 100, {.fusion_mode = fusion::none}));
  for (const std::string name : {"autoswap", "tvdnn", "ooc_cudnn"}) {
    const strategy& by = *find_strategy(planners(), name);
    problem p = s.at(name, 1.4);
    const memory_plan plan = by.plan(p);
    p.time_to_beat = s.time(name, 1.4) + 1;
    EXPECT_EQ(by.plan(p), plan) << name;
    p.time_to_beat = time_lower_bound(p, plan_resident(p));
    EXPECT_THROW(by.plan(p), infeasible) << name;
  }
}

TEST(autoswap, with_its_limit_at_the_peak_nothing_moves) {
  const setting s(small_spec("vgg16_cifar", 100, {.fusion_mode = fusion::none}));
  for (std::int64_t score = 0; score <= 4; ++score)
    EXPECT_EQ(s.plan("autoswap", 1, {{"score", score}}), s.plan("device", 1)) << score;
  EXPECT_GT(count<evict>(s.plan("autoswap", 1.25)), 0);
}

TEST(autoswap, the_best_of_all_weights_is_no_slower_than_each_score) {
  const setting s(small_spec("vgg16_cifar", 100, {.fusion_mode = fusion::none}));
  const auto time = [&](std::int64_t score) { return s.time("autoswap", 1.6, {{"score", score}}); };
  const nanoseconds best = time(4);
  for (std::int64_t score = 0; score < 4; ++score) EXPECT_LE(best, time(score) * 102 / 100) << score;
}

TEST(pooch, with_a_link_that_costs_nothing_it_computes_nothing_again) {
  machine m = slow_link();
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = m.link_both_bytes_per_s = 1'000'000'000'000'000;
  m.copy_ns = 0;
  const setting s(small_spec("resnet20_cifar", 64), m);
  const memory_plan plan = s.plan("pooch", 1.8);
  EXPECT_EQ(count<compute>(plan), static_cast<std::ptrdiff_t>(s.g.ops.size()));
  EXPECT_GT(count<evict>(plan), 0);
}

TEST(pooch, without_a_link_it_only_computes_again) {
  machine m = slow_link();
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = m.link_both_bytes_per_s = 0;
  const setting s(small_spec("resnet20_cifar", 64), m);
  const memory_plan plan = s.plan("pooch", 1.25);
  EXPECT_EQ(count<evict>(plan) + count<prefetch>(plan), 0);
  EXPECT_GT(count<compute>(plan), static_cast<std::ptrdiff_t>(s.g.ops.size()));
}

TEST(pooch, each_phase_takes_time_off) {
  const setting s(small_spec("resnet18_cifar", 100, {.fusion_mode = fusion::none}));
  const auto time = [&](const knob_values& knobs) { return s.time("pooch", 1.6, knobs); };
  const nanoseconds all = time({}), swapping = time({{"recompute", 0}});
  const nanoseconds swap_all = time({{"recompute", 0}, {"keep", 0}});
  const nanoseconds unscheduled = time({{"recompute", 0}, {"keep", 0}, {"schedule", 0}});
  EXPECT_LT(all, swapping);
  EXPECT_LT(swapping, swap_all);
  EXPECT_LT(swap_all, unscheduled);
}

// Tensors that a layer before the classifier reads, and the backward pass too.
std::ptrdiff_t extractor_inputs(const graph& g, bool of_convolutions) {
  std::ptrdiff_t found = 0;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const role use = g.tensors[t].role;
    if (use != role::activation && use != role::input) continue;
    const op* last = nullptr;
    bool backward = false, classifier = false, late = false;
    for (const op& o : g.ops) {
      classifier = classifier || has_kind<linear>(o);
      if (std::ranges::find(o.in, t) == o.in.end()) continue;
      const bool is_backward = o.name.find(".backward") != std::string::npos;
      backward = backward || is_backward;
      if (is_backward) continue;
      last = &o;
      late = classifier;
    }
    if (last == nullptr || late || !backward) continue;
    found += !of_convolutions || has_kind<convolution>(*last) ? 1 : 0;
  }
  return found;
}

// Tensors that leave; each once before the backward pass brings it back.
std::ptrdiff_t evicted(const memory_plan& plan) {
  std::vector<tensor_id> all, back;
  for (const action& a : plan.actions) {
    if (const auto* f = std::get_if<prefetch>(&a)) back.push_back(f->tensor);
    if (const auto* e = std::get_if<evict>(&a)) {
      const bool ends = std::ranges::count(back, e->tensor) > 0 && std::ranges::count(all, e->tensor) > 0;
      if (!ends) all.push_back(e->tensor);  // at the end, what began at home is only dropped
    }
  }
  return static_cast<std::ptrdiff_t>(all.size());
}

TEST(vdnn, evicts_once_for_each_input_of_the_feature_extractor) {
  for (const fusion joined : {fusion::none, fusion::fused}) {
    const setting s(small_spec("vgg16", 4, {.fusion_mode = joined}));
    EXPECT_EQ(evicted(s.plan("vdnn_all", 1)), extractor_inputs(s.g, false));
    EXPECT_EQ(evicted(s.plan("vdnn_conv", 1)), extractor_inputs(s.g, true));
    EXPECT_GT(extractor_inputs(s.g, true), 0);
  }
}

TEST(vdnn, nothing_overlaps_the_end_of_a_layer) {
  const setting s(small_spec("vgg11", 8, {.fusion_mode = fusion::none}));
  const memory_plan plan = s.plan("vdnn_all", 1);
  const execution_plan e = lower(s.at("vdnn_all", 1), plan);
  const trace t = open_simulator(s.on)->execute(s.g, e, {1, true, false}).iterations[0];
  ASSERT_GT(plan.joins.size(), 20U);
  for (const std::uint32_t at : plan.joins) {
    nanoseconds ended = 0, begun = t.duration;
    for (const um::span& x : t.spans) {
      if (x.step < at) ended = std::max(ended, x.end);
      if (x.step >= at) begun = std::min(begun, x.begin);
    }
    EXPECT_LE(ended, begun);
  }
}

TEST(vdnn, dyn_gives_up_workspace_only_where_the_budget_asks_for_it) {
  setting s(small_spec("vgg11", 8, {.fusion_mode = fusion::none}));
  for (std::size_t o = 0; o < s.g.ops.size(); ++o) {
    if (has_kind<convolution>(s.g.ops[o])) s.costs[o].workspace_bytes = 400 * MiB;
  }
  const memory_plan least = s.plan("vdnn_all", 1, {{"fastest", 0}});
  problem p = s.at("vdnn_dyn", 1);
  p.budget = lower(s.at("vdnn_all", 0.1), least).device_arena_bytes;
  const memory_plan plan = plan_vdnn_dyn(p);
  EXPECT_LE(lower(p, plan).device_arena_bytes, p.budget);
  EXPECT_EQ(s.plan("vdnn_dyn", 1), s.plan("device", 1));
}

// The most parts that a tensor is moved in.
std::size_t most_parts(const memory_plan& plan) {
  std::map<tensor_id, std::vector<box>> moved;
  std::size_t most = 0;
  for (const action& a : plan.actions) {
    const auto* e = std::get_if<evict>(&a);
    if (e == nullptr) continue;
    std::vector<box>& parts = moved[e->tensor];
    if (std::ranges::find(parts, e->part) == parts.end()) parts.push_back(e->part);
    most = std::max(most, parts.size());
  }
  return most;
}

TEST(tvdnn, cuts_into_sections_where_whole_operators_do_not_fit) {
  const setting s(small_spec("vgg16", 64, {.fusion_mode = fusion::none}));
  const strategy& by = *find_strategy(planners(), "tvdnn");
  EXPECT_THROW(s.plan("tvdnn", 3.3, {{"sections", 1}}), infeasible);
  const problem p = s.at("tvdnn", 3.3);
  const memory_plan plan = by.plan(p);
  EXPECT_GT(most_parts(plan), 1U);
  EXPECT_EQ(defect_of(s.g, plan), std::nullopt);
  EXPECT_LE(lower(p, plan).device_arena_bytes, p.budget);
  EXPECT_LE(most_parts(s.plan("tvdnn", 1.1, {{"sections", 1}})), 1U);
}

TEST(tvdnn, its_heuristic_is_close_to_its_integer_program) {
  const setting s(small_spec("alexnet", 64, {.fusion_mode = fusion::none}));
  if (!has_mixed_solver()) {
    EXPECT_THROW(s.plan("tvdnn_ilp", 1.5), unsupported);
    GTEST_SKIP() << how_to_get_highs;
  }
  const auto time = [&](const std::string& name, double ratio) {
    const problem p = s.at(name, ratio);
    const memory_plan plan = s.plan(name, ratio);
    EXPECT_EQ(defect_of(s.g, plan), std::nullopt);
    EXPECT_LE(lower(p, plan).device_arena_bytes, p.budget);
    return s.time(name, ratio);
  };
  EXPECT_EQ(s.plan("tvdnn_ilp", 1), s.plan("device", 1));
  const nanoseconds heuristic = time("tvdnn", 1.4), program = time("tvdnn_ilp", 1.4);
  EXPECT_LE(program, heuristic + heuristic / 100);
  EXPECT_LE(heuristic, program + program / 20);
  EXPECT_EQ(s.plan("tvdnn_ilp", 1.4), s.plan("tvdnn_ilp", 1.4));
}

}  // namespace
