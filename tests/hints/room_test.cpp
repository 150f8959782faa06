// What a static schedule gives up, and in which parts.
#include "hints/room.hpp"

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
  room_rules rules;
  room() {
    rules.order = evict_order::furthest_use;
    rules.fetch = rules.populate = true;
    for (tensor& t : g.tensors) t.shape = {8, 256, 64, 16};  // 8 MiB: four blocks
    rules.discards.assign(g.tensors.size(), true);
  }
  problem with(byte_count budget) { return {g, costs, m, budget, pressure::plan, {}}; }
  memory_plan made(byte_count budget) {
    return make_room(with(budget), in_order(g, residence::managed), packer::best_fit, rules);
  }
  std::vector<std::size_t> uses_of(const memory_plan& plan, tensor_id t) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* c = std::get_if<compute>(&plan.actions[i]);
      if (c == nullptr) continue;
      const op& o = g.ops[c->what];
      const bool reads = std::ranges::find(o.in, t) != o.in.end();
      if (reads || std::ranges::find(o.out, t) != o.out.end()) all.push_back(i);
    }
    return all;
  }
};

TEST_F(room, parts_are_whole_blocks_where_some_number_of_them_allows_it) {
  const tensor t{"t", {8, 256, 64, 24}, dtype::f32, role::activation};  // six blocks, 8 images
  for (const residence home : {residence::managed, residence::twinned}) {
    EXPECT_EQ(parts_to_leave(t, home, 1, 2 * MiB), 2U) << "three blocks each: 8 images have no thirds";
    EXPECT_EQ(parts_to_leave(t, home, 4, 2 * MiB), 2U) << "two slices to a part";
    EXPECT_EQ(parts_to_leave(t, home, 1, 64 * MiB), 1U);
  }
  const tensor odd{"odd", {8, 256, 64, 17}, dtype::f32, role::activation};  // parts of it share blocks
  EXPECT_EQ(parts_to_leave(odd, residence::twinned, 4, 2 * MiB), 1U);
  EXPECT_EQ(parts_to_leave(odd, residence::managed, 4, 2 * MiB), 8U);
}

TEST_F(room, what_is_dead_never_crosses_the_link) {
  for (const byte_count budget : {24 * MiB, 32 * MiB, 48 * MiB}) {
    const memory_plan plan = made(budget);
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      const auto* e = std::get_if<evict>(&plan.actions[i]);
      if (e == nullptr || survives(g.tensors[e->what].use)) continue;
      const std::vector<std::size_t> uses = uses_of(plan, e->what);
      EXPECT_TRUE(uses.front() < i && i < uses.back()) << to_text(g, plan.actions[i]);
    }
  }
}

TEST_F(room, what_dies_is_discarded_right_then_or_left_to_who_takes_it_over_soon) {
  const memory_plan plan = made(32 * MiB);
  const auto where = managed_layout(with(32 * MiB), plan, packer::best_fit);
  int discards = 0, handed_on = 0;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (survives(g.tensors[t].use)) continue;
    const std::size_t last = uses_of(plan, t).back();
    bool discarded = false;
    for (std::size_t i = last + 1;
         i < plan.actions.size() && !std::holds_alternative<compute>(plan.actions[i]); ++i) {
      const auto* d = std::get_if<discard>(&plan.actions[i]);
      discarded = discarded || (d != nullptr && d->what == t);
    }
    bool taken = false;
    for (tensor_id heir = 0; heir < g.tensors.size(); ++heir) {
      if (heir == t || where[heir].offset != where[t].offset) continue;
      const std::size_t first = uses_of(plan, heir).front();
      const auto computes =
          std::count_if(plan.actions.begin() + static_cast<std::ptrdiff_t>(std::min(last, first)),
                        plan.actions.begin() + static_cast<std::ptrdiff_t>(first),
                        [](const action& a) { return std::holds_alternative<compute>(a); });
      taken = taken || (first > last && computes <= 4);
    }
    EXPECT_NE(discarded, taken) << g.tensors[t].name;
    (discarded ? discards : handed_on) += 1;
  }
  EXPECT_GT(discards, 0);
  EXPECT_GT(handed_on, 0);
}

TEST_F(room, keeps_the_budget_and_fetches_what_left) {
  const execution_plan e = lower(with(32 * MiB), made(32 * MiB));
  EXPECT_LE(e.peak_device_bytes, 32 * MiB);
  int evictions = 0, fetches = 0;
  for (const step& s : e.steps) {
    evictions += std::holds_alternative<evict>(s.what) ? 1 : 0;
    fetches += std::holds_alternative<prefetch>(s.what) ? 1 : 0;
  }
  EXPECT_GT(evictions, 0);
  EXPECT_GT(fetches, 0);
}

}  // namespace
