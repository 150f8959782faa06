// What a static schedule gives up, and in which parts.
#include "hints/make_room.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/lower.hpp"
#include "tests/core/chain.hpp"

namespace {

using namespace um;
using namespace um::testing;

struct room : ::testing::Test {
  graph g = chain(6);
  profile costs = costs_of(g);
  machine m;
  eviction_options rules;
  room() {
    rules.order = evict_order::furthest_use;
    rules.prefetch_inputs = rules.populate_outputs = true;
    for (tensor& t : g.tensors) t.shape = {8, 256, 64, 16};  // 8 MiB: four blocks
    rules.is_discarded.assign(g.tensors.size(), true);
  }
  problem with(byte_count budget) { return {g, costs, m, budget, pressure::plan, {}}; }
  memory_plan made(byte_count budget) {
    const problem p = with(budget);
    const memory_plan draft = in_order(g, residence::managed);
    return make_room(p, draft, placement_of_draft(p, draft, packers::searched), rules);
  }
  std::vector<std::size_t> uses_of(const memory_plan& plan, tensor_id t) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* c = std::get_if<compute>(&plan.actions[i]);
      if (c == nullptr) continue;
      const op& o = g.ops[c->op];
      const bool reads = std::ranges::find(o.in, t) != o.in.end();
      if (reads || std::ranges::find(o.out, t) != o.out.end()) all.push_back(i);
    }
    return all;
  }
};

TEST_F(room, parts_are_whole_blocks_where_some_number_of_them_allows_it) {
  const tensor t{"t", {8, 256, 64, 24}, dtype::f32, role::activation};  // six blocks, 8 images
  for (const residence home : {residence::managed, residence::twinned}) {
    EXPECT_EQ(eviction_part_count(t, home, 1, 2 * MiB), 2U) << "three blocks each: 8 images have no thirds";
    EXPECT_EQ(eviction_part_count(t, home, 4, 2 * MiB), 2U) << "two slices to a part";
    EXPECT_EQ(eviction_part_count(t, home, 1, 64 * MiB), 1U);
  }
  const tensor odd{"odd", {8, 256, 64, 17}, dtype::f32, role::activation};  // parts of it share blocks
  EXPECT_EQ(eviction_part_count(odd, residence::twinned, 4, 2 * MiB), 1U);
  EXPECT_EQ(eviction_part_count(odd, residence::managed, 4, 2 * MiB), 8U);
}

TEST_F(room, what_is_dead_never_crosses_the_link) {
  for (const byte_count budget : {24 * MiB, 32 * MiB, 48 * MiB}) {
    const memory_plan plan = made(budget);
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* e = std::get_if<evict>(&plan.actions[i]);
      if (e == nullptr || survives(g.tensors[e->tensor].role)) continue;
      const std::vector<std::size_t> uses = uses_of(plan, e->tensor);
      EXPECT_TRUE(uses.front() < i && i < uses.back()) << to_text(g, plan.actions[i]);
    }
  }
}

// A discard and populating again cost more than room that nobody needs.
TEST_F(room, what_is_dead_stays_until_room_is_needed_and_goes_first) {
  const auto given_up = [this](byte_count budget) {
    int discards = 0;
    const memory_plan plan = made(budget);
    for (const action& a : plan.actions) discards += std::holds_alternative<discard>(a) ? 1 : 0;
    return discards;
  };
  EXPECT_EQ(given_up(256 * MiB), 0);
  EXPECT_GT(given_up(48 * MiB), 0);
  EXPECT_GE(given_up(32 * MiB), given_up(48 * MiB));
  const memory_plan plan = made(32 * MiB);
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    if (!std::holds_alternative<evict>(plan.actions[i])) continue;
    // Whatever is dead and not given up behind an eviction was never given room in between.
    for (std::size_t k = i + 1; k < plan.actions.size() && !std::holds_alternative<compute>(plan.actions[k]);
         ++k) {
      EXPECT_FALSE(std::holds_alternative<discard>(plan.actions[k])) << to_text(g, plan.actions[k]);
    }
  }
}

TEST_F(room, keeps_the_budget_and_fetches_what_left) {
  const execution_plan e = lower(with(32 * MiB), made(32 * MiB));
  EXPECT_LE(e.peak_device_bytes, 32 * MiB);
  int evictions = 0, fetches = 0;
  for (const step& s : e.steps) {
    evictions += std::holds_alternative<evict>(s.command) ? 1 : 0;
    fetches += std::holds_alternative<prefetch>(s.command) ? 1 : 0;
  }
  EXPECT_GT(evictions, 0);
  EXPECT_GT(fetches, 0);
}

}  // namespace
