// What parts of one convolution hold and take: 32 images of 64 channels of 56 x 56, 3 x 3 filters, with
// operands at home in host memory, part by part.
#include <gtest/gtest.h>

#include "core/lower.hpp"
#include "hints/make_room.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"
#include "tests/core/chain.hpp"
#include "tests/refusal.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

using namespace um::testing;

constexpr std::int64_t images = 32, channels = 64, rows = 56;

struct one_convolution : ::testing::Test {
  graph g;
  machine on = round_machine();
  profile costs;
  tensor_id x = 0, w = 1, y = 2;

  one_convolution() {
    const dims activations{images, channels, rows, 56};
    g.tensors = {{"x", activations, dtype::f32, role::input},
                 {"w", {channels, channels, 3, 3}, dtype::f32, role::parameter},
                 {"y", activations, dtype::f32, role::output}};
    g.ops = {{"conv", convolution{1, 1, 1, 1}, {x, w}, {y}, true, {}}};
    on.link_to_device_bytes_per_s = on.link_to_host_bytes_per_s = 25'000'000'000;
    on.link_both_bytes_per_s = 50'000'000'000;
    on.device_bytes_per_s = 2'000'000'000'000;
    on.fp32_flops_per_s = 20'000'000'000'000;
    on.launch_ns = 5'000;
    on.copy_ns = 5'000;
    costs = estimate(g, on);
  }

  problem all() const { return {g, costs, on, std::numeric_limits<byte_count>::max(), evictor::none, {}}; }

  // Each part of x is fetched for the part of y that needs it, and room is given up at once.
  memory_plan parts(const std::vector<box>& cuts) const {
    memory_plan plan;
    plan.residences = {residence::staged, residence::device, residence::staged};
    box held{{-1, 0}, {}, {}, {}};
    for (const box& part : cuts) {
      const std::vector<um::access> touched = accesses_of(g, g.ops[0], part);
      const box in = box_of(g.tensors[x].shape, touched[0].where),
                out = box_of(g.tensors[y].shape, touched[2].where);
      if (in != held) {
        if (held.batch.begin >= 0) plan.actions.emplace_back(evict{x, held});
        plan.actions.emplace_back(prefetch{x, in});
      }
      held = in;
      plan.actions.emplace_back(compute{0, part});
      const bool is_last = part.reduction.end == 0 || part.reduction.end == channels;
      if (is_last) plan.actions.emplace_back(evict{y, out});
    }
    plan.actions.emplace_back(evict{x, held});
    return plan;
  }
  byte_count arena(const std::vector<box>& cuts) const {
    return lower(all(), parts(cuts)).device_arena_bytes;
  }
  nanoseconds time(const std::vector<box>& cuts) const {
    const execution_plan steps = lower(all(), parts(cuts));
    return simulate({g, steps, on, costs}, 2, false).back().duration;
  }
};

std::vector<box> quarters(interval box::* along, std::int64_t extent) {
  std::vector<box> all(4);
  for (std::uint32_t p = 0; p < 4; ++p) all[p].*along = part_of(extent, p, 4);
  return all;
}

TEST_F(one_convolution, holds_a_quarter_and_what_is_shared) {
  const byte_count tensor = bytes_of(g.tensors[x]), filter = bytes_of(g.tensors[w]);
  EXPECT_EQ(arena({box{}}), 2 * tensor + filter);
  EXPECT_EQ(arena(quarters(&box::batch, images)), tensor / 2 + filter);
  const byte_count padded = tensor * 4 / images * 16 / 56;
  EXPECT_EQ(arena(quarters(&box::row, rows)), tensor / 4 + tensor * 15 / 56 + filter + padded)
      << "a halo of a row, and four images at once with their row of padding: more than a halo of two rows";
  EXPECT_LE(static_cast<double>(arena(quarters(&box::row, rows))),
            1.1 * static_cast<double>(tensor / 4 + tensor * 16 / 56 + filter));
  EXPECT_EQ(arena(quarters(&box::channel, channels)), tensor + tensor / 4 + filter) << "all of x";
  std::vector<box> both;
  for (const box& k : quarters(&box::channel, channels)) {
    for (const box& c : quarters(&box::reduction, channels)) {
      both.push_back(k);
      both.back().reduction = c.reduction;
    }
  }
  EXPECT_EQ(arena(both), tensor / 2 + filter + filter / 16 + tensor / 4)
      << "a sixteenth of the filter is gathered, and a later part's share of the sum may be kept apart";
}

// One part after the other, as there is room for one: whole, it would take as long.
TEST_F(one_convolution, in_rows_takes_the_bytes_over_the_link) {
  const byte_count tensor = bytes_of(g.tensors[x]);
  const byte_count in = tensor * (2 * 15 + 2 * 16) / 56;  // neighbours' rows are fetched twice
  const auto link = [&](byte_count bytes) {
    return static_cast<double>(bytes) * 1e9 / static_cast<double>(on.link_to_device_bytes_per_s);
  };
  const auto took = static_cast<double>(time(quarters(&box::row, rows)));
  EXPECT_GE(took, link(in));
  EXPECT_LE(took, 1.1 * link(in + tensor));
}

TEST_F(one_convolution, every_move_is_one_pitched_copy) {
  for (const auto& cuts : {quarters(&box::row, rows), quarters(&box::channel, channels)}) {
    for (const step& s : lower(all(), parts(cuts)).steps) {
      if (!std::holds_alternative<compute>(s.command) && s.is_needed) {
        EXPECT_EQ(s.copies.size(), 1U);
      }
      EXPECT_TRUE(s.gathers.empty() && s.scatters.empty());
    }
  }
}

struct driver_order : ::testing::Test {
  graph g = chain(4);
  profile costs = costs_of(g);
  machine m;
  driver_order() {
    for (tensor& t : g.tensors) t.shape = {4, 128, 64, 64};  // 8 MiB: four blocks
  }
  problem with(byte_count budget) { return {g, costs, m, budget, evictor::plan, {}}; }

  static memory_plan within_budget(const problem& p, const memory_plan& draft) {
    return make_room(p, draft, placement_of_draft(p, draft, packers::searched), {});
  }
  static int evictions(const memory_plan& plan) {
    int count = 0;
    for (const action& a : plan.actions) count += std::holds_alternative<evict>(a) ? 1 : 0;
    return count;
  }
};

TEST_F(driver_order, evicts_nothing_while_everything_fits) {
  const memory_plan plan = within_budget(with(GiB), in_order(g, residence::managed));
  EXPECT_EQ(evictions(plan), 0);
}

TEST_F(driver_order, takes_the_least_recently_migrated_first) {
  const memory_plan free_plan = in_order(g, residence::managed);
  const byte_count arena = lower(with(GiB), free_plan).managed_arena_bytes;
  const memory_plan plan = within_budget(with(arena - managed_block), free_plan);
  EXPECT_GT(evictions(plan), 0);
  const execution_plan e = lower(with(arena - managed_block), plan);
  EXPECT_LE(e.peak_device_bytes, arena - managed_block);
}

TEST_F(driver_order, never_takes_an_operand_of_the_next_operator) {
  const memory_plan plan = within_budget(with(32 * MiB), in_order(g, residence::managed));
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* gone = std::get_if<evict>(&plan.actions[i]);
    if (gone == nullptr) continue;
    std::size_t k = i;
    while (k < plan.actions.size() && !std::holds_alternative<compute>(plan.actions[k])) ++k;
    if (k == plan.actions.size()) continue;
    const op& next = g.ops[std::get<compute>(plan.actions[k]).op];
    for (const tensor_id t : next.in) EXPECT_NE(t, gone->tensor) << next.name;
    for (const tensor_id t : next.out) EXPECT_NE(t, gone->tensor) << next.name;
  }
}

TEST_F(driver_order, an_operator_larger_than_the_budget_is_infeasible_and_named) {
  const auto plan = [&] { within_budget(with(16 * MiB), in_order(g, residence::managed)); };
  expect_words(refusal<infeasible>(plan), {"back3"});
}

TEST_F(driver_order, a_prefetch_without_room_is_dropped) {
  memory_plan plan = in_order(g, residence::managed);
  const tensor_id y0 = named(g, "y0");
  // Before back3, whose operands fill the budget; back0 is the next to read y0.
  plan.actions.insert(plan.actions.begin() + 4, prefetch{y0, {}});
  const memory_plan tight = within_budget(with(24 * MiB), plan);
  for (const action& a : tight.actions) EXPECT_FALSE(std::holds_alternative<prefetch>(a));
  const memory_plan roomy = within_budget(with(GiB), plan);
  EXPECT_EQ(roomy.actions.size(), plan.actions.size());
}

TEST_F(driver_order, a_prefetch_nobody_uses_is_dropped) {
  memory_plan plan = in_order(g, residence::managed);
  plan.actions.emplace_back(prefetch{named(g, "x"), {}});
  const memory_plan kept = within_budget(with(GiB), plan);
  EXPECT_EQ(kept.actions.size(), plan.actions.size() - 1);
}

}  // namespace
}  // namespace um
