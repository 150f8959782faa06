// Looks at lowered plans byte by byte: in list order every read finds the tensor it is meant to
// find, and no two steps of different lanes that could run at the same time touch the same bytes,
// unless both only read them. Plans are those of every strategy, and random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "networks/builder.hpp"
#include "networks/storage.hpp"
#include "planners/planners.hpp"
#include "simulator/roofline.hpp"
#include "tests/planners/memory_replay.hpp"
#include "tests/planners/random_plans.hpp"
#include "tests/planners/small_networks.hpp"
#include "tests/simulator/fixtures.hpp"

namespace {

using namespace um;
using namespace um::testing;

struct use {
  space where;
  byte_count begin, end;
  bool writes;
};

void add(std::vector<use>& all, const address& at, byte_count bytes, bool writes) {
  if (bytes > 0) all.push_back({at.where, at.offset, at.offset + bytes, writes});
}

// One stretch for each slice: what lies between rows belongs to neighbours, so rows one by one.
void add(std::vector<use>& all, const pitched_copy& c) {
  for (byte_count z = 0; z < c.depth; ++z) {
    for (byte_count y = 0; y < c.height; ++y) {
      add(all, {c.from.where, c.from.offset + z * c.from_slice + y * c.from_pitch}, c.width, false);
      add(all, {c.to.where, c.to.offset + z * c.to_slice + y * c.to_pitch}, c.width, true);
    }
  }
}

// What a step does to memory. Moving managed data changes no value, so it is no use.
std::vector<use> uses_of(const graph& g, const step& s) {
  std::vector<use> all;
  for (const operand& o : s.operands) {
    add(all, o.at, bytes_of(g.tensors[o.what.what], o.what.where), o.what.mode != access_mode::read);
  }
  add(all, {space::device, s.workspace_offset}, s.workspace_bytes, true);
  for (const auto* copies : {&s.gathers, &s.scatters}) {
    for (const pitched_copy& c : *copies) add(all, c);
  }
  if (!s.needed) return all;
  for (const pitched_copy& c : s.copies) add(all, c);
  const bool twinned = s.home == residence::twinned, in = std::holds_alternative<prefetch>(s.what);
  const bool gives_up = std::holds_alternative<discard>(s.what) && is_managed(s.home);
  for (const range& r : s.room) add(all, {space::managed, r.offset}, r.bytes, true);
  for (const movement& m : s.moves) {
    const bool copies = twinned && (in || std::holds_alternative<evict>(s.what));
    if (copies || gives_up) add(all, {space::managed, m.device.offset}, m.device.bytes, in || gives_up);
    if (copies) add(all, {space::pinned, m.pinned_offset}, m.device.bytes, !in);
  }
  return all;
}

// Operands of one compute lie apart, unless one takes the other's place.
void expect_operands_apart(const graph& g, const execution_plan& e) {
  for (const step& s : e.steps) {
    const auto* const c = std::get_if<compute>(&s.what);
    if (c == nullptr) continue;
    const op& o = g.ops[c->what];
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      const operand& x = s.operands[i];
      const byte_count x_end = x.at.offset + bytes_of(g.tensors[x.what.what], x.what.where);
      for (std::size_t k = std::max(i + 1, o.in.size()); k < s.operands.size(); ++k) {
        const operand& y = s.operands[k];
        const byte_count y_end = y.at.offset + bytes_of(g.tensors[y.what.what], y.what.where);
        if (x.at.where != y.at.where || x_end <= y.at.offset || y_end <= x.at.offset) continue;
        const bool in_place = o.alias && o.alias->input == i && o.alias->output + o.in.size() == k;
        EXPECT_TRUE(x.what.what == y.what.what || in_place)
            << to_text(g, s.what) << " operands " << i << " and " << k;
        EXPECT_EQ(x.at.offset, y.at.offset);
      }
    }
  }
}

// --- who may run beside whom ---

// For each step and lane, the last step of that lane that has ended when the step begins.
std::vector<std::array<std::int32_t, lane_count>> ended_before(const execution_plan& e) {
  std::vector<std::array<std::int32_t, lane_count>> seen(e.steps.size());
  std::array<std::int32_t, lane_count> last{no_step, no_step, no_step};
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    const auto mine = static_cast<std::size_t>(e.steps[i].where);
    seen[i] = {no_step, no_step, no_step};
    std::array<std::int32_t, lane_count> direct = e.steps[i].after;
    direct[mine] = last[mine];
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (direct[l] == no_step) continue;
      for (std::size_t k = 0; k < lane_count; ++k) {
        seen[i][k] = std::max(seen[i][k], seen[static_cast<std::size_t>(direct[l])][k]);
      }
      seen[i][l] = std::max(seen[i][l], direct[l]);
    }
    last[mine] = static_cast<std::int32_t>(i);
  }
  return seen;
}

// Sorted, and apart from each other.
using stretch_list = std::vector<std::pair<byte_count, byte_count>>;

stretch_list joined(stretch_list all) {
  std::ranges::sort(all);
  stretch_list result;
  for (const auto& [begin, end] : all) {
    if (!result.empty() && begin <= result.back().second) {
      result.back().second = std::max(result.back().second, end);
    } else {
      result.emplace_back(begin, end);
    }
  }
  return result;
}

bool meet(const stretch_list& a, const stretch_list& b) {
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end()) {
    if (x->second <= y->first) {
      ++x;
    } else if (y->second <= x->first) {
      ++y;
    } else {
      return true;
    }
  }
  return false;
}

// Of one step, for each space.
struct footprints {
  std::array<stretch_list, 3> touched, written;
};

footprints footprints_of(const graph& g, const step& s) {
  footprints all;
  for (const use& u : uses_of(g, s)) {
    const auto where = static_cast<std::size_t>(u.where);
    all.touched[where].emplace_back(u.begin, u.end);
    if (u.writes) all.written[where].emplace_back(u.begin, u.end);
  }
  for (stretch_list& l : all.touched) l = joined(std::move(l));
  for (stretch_list& l : all.written) l = joined(std::move(l));
  return all;
}

bool collide(const footprints& a, const footprints& b) {
  for (std::size_t where = 0; where < a.touched.size(); ++where) {
    if (meet(a.written[where], b.touched[where]) || meet(a.touched[where], b.written[where])) return true;
  }
  return false;
}

// The first two steps that may run at the same time and touch the same bytes.
std::optional<std::string> race_in(const graph& g, const execution_plan& e) {
  const auto seen = ended_before(e);
  std::vector<footprints> uses;
  std::array<std::vector<std::size_t>, lane_count> of_lane;
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    uses.push_back(footprints_of(g, e.steps[i]));
    for (std::size_t l = 0; l < lane_count; ++l) {
      for (auto j = of_lane[l].rbegin(); j != of_lane[l].rend(); ++j) {
        if (seen[i][l] >= static_cast<std::int32_t>(*j)) break;
        if (!collide(uses[i], uses[*j])) continue;
        return to_text(g, e.steps[i].what) + " may run beside " + to_text(g, e.steps[*j].what);
      }
    }
    of_lane[static_cast<std::size_t>(e.steps[i].where)].push_back(i);
  }
  return std::nullopt;
}

void expect_no_races(const graph& g, const execution_plan& e) {
  ASSERT_EQ(race_in(g, e), std::nullopt);
}

void expect_aligned_operands(const graph& g, const execution_plan& e) {
  for (const step& s : e.steps) {
    const auto* const c = std::get_if<compute>(&s.what);
    if (c == nullptr) continue;
    for (const operand& o : s.operands) {
      const byte_count least =
          std::max(operand_alignment(g.ops[c->what]), size_of(g.tensors[o.what.what].type));
      ASSERT_EQ(o.at.offset % least, 0U) << to_text(g, s.what) << ": " << g.tensors[o.what.what].name;
    }
  }
}

profile costs_with_workspaces(const graph& g) {
  profile costs;
  for (op_id o = 0; o < g.ops.size(); ++o) costs.push_back({1000, o % 3 * 700'001, "test"});
  return costs;
}

// Where calls are free, what divides operators divides without end.
machine with_calls_that_take_time(machine m) {
  m.launch_ns = 4000;
  m.copy_ns = 10'000;
  m.tf32_flops_per_s = m.bf16_flops_per_s = m.fp32_flops_per_s;
  return m;
}

bool only_advises(const strategy& s) {
  return std::ranges::any_of(hint_table(), [&](const hint_strategy& row) {
    return row.name == s.name && !row.rules.empty() && std::ranges::all_of(row.rules, [](const hint_rule& r) {
             return std::holds_alternative<advice_rule>(r.what);
           });
  });
}

// A small network by its label.
struct races : ::testing::TestWithParam<std::string> {
  graph g = build(small_networks().at(GetParam()));
  profile costs = costs_with_workspaces(g);
  machine on = with_calls_that_take_time(round_machine());
};

TEST_P(races, no_strategy_has_any) {
  std::vector<strategy> all(planners().begin(), planners().end());
  all.insert(all.end(), hints().begin(), hints().end());
  const byte_count footprint = footprint_of(g, costs).total;
  int checked = 0;
  for (const strategy& s : all) {
    if (only_advises(s)) continue;                    // plans as managed does
    if (complete(s, {}).contains("nodes")) continue;  // of a solver's tree: it takes seconds
    for (const byte_count percent : {200U, 80U, 45U}) {
      SCOPED_TRACE(s.name + " " + std::to_string(percent));
      knob_values knobs = complete(s, {});
      if (knobs.contains("trials")) knobs["trials"] = 1;
      const bool searches = knobs.contains("trials") || s.name.starts_with("best");
      if (searches && percent != 45) continue;  // long plans
      const problem p{g, costs, on, footprint * percent / 100, pressure::plan, knobs, estimate_slices(g, on)};
      try {
        const memory_plan plan = s.plan(p);
        constexpr std::size_t is_long = 1000;  // actions: a search for their places takes minutes
        problem roomy = p;
        roomy.budget = std::numeric_limits<byte_count>::max();
        const execution_plan e = plan.actions.size() > is_long ? lower(roomy, plan, packers::first_fit)
                                                               : lower(p, plan, s.placed_by);
        expect_every_read_finds_its_tensor(g, e);
        expect_no_races(g, e);
        ++checked;
      } catch (const infeasible&) {
        continue;
      }
    }
  }
  EXPECT_GE(checked, 10);
}

TEST_P(races, are_found_where_nobody_waits) {
  const strategy& by = *find(planners(), "swap_all");
  const problem p{g, costs, on, footprint_of(g, costs).total * 95 / 100, pressure::plan, complete(by, {})};
  execution_plan e;
  try {
    e = lower(p, by.plan(p));
  } catch (const infeasible&) {
    GTEST_SKIP() << "no plan that moves data";
  }
  const bool waits = std::ranges::any_of(e.steps, [](const step& s) {
    return std::ranges::any_of(s.after, [](std::int32_t i) { return i != no_step; });
  });
  for (step& s : e.steps) s.after.fill(no_step);
  EXPECT_EQ(race_in(g, e).has_value(), waits);
}

// --- random plans ---

void expect_right(const graph& g, const profile& costs, std::uint32_t seed, cuts how) {
  const machine on;
  const problem p{g, costs, on, std::numeric_limits<byte_count>::max(), pressure::none, {}};
  const memory_plan plan = random_plan(g, seed, how).make();
  ASSERT_EQ(defect_of(g, plan), std::nullopt);
  const execution_plan e = lower(p, plan, seed % 2 == 0 ? packers::searched : packers::first_fit);
  expect_every_read_finds_its_tensor(g, e);
  expect_operands_apart(g, e);
  expect_aligned_operands(g, e);
  expect_no_races(g, e);
}

TEST_P(races, random_plans_have_none) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_right(g, costs, seed, cuts::of_the_batch);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(networks, races, ::testing::ValuesIn(small_network_labels()),
                         [](const auto& row) { return row.param; });

// Every kind of operator in extents that no number of parts divides.
graph tiny(bool joined, memory_order order) {
  builder b("tiny", pass::train);
  tensor_id x = b.input("x", {5, 6, 11, 3});
  x = b.max_pool("pool", b.relu("relu1", b.convolution("conv1", x, {7, 3, 1, 1})), 3, 2, leftover::pooled);
  const tensor_id y = b.convolution("conv2", x, {7, 3, 1, 1, false});
  x = b.relu("relu2", b.add("add", b.batch_norm("norm", y), x));
  x = b.relu("relu3", b.convolution("conv3", x, {9, 5, 2, 2}));
  x = b.linear("fc", b.global_average_pool("mean", x), 10);
  const graph g = b.training(x, joined ? fusion::fused : fusion::none, true);
  return stored(g, precision::fp32, order);
}

struct tiny_races : ::testing::TestWithParam<bool> {};

TEST_P(tiny_races, random_plans_have_none) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const graph g = tiny(GetParam(), order);
    const profile costs = costs_with_workspaces(g);
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      SCOPED_TRACE(std::string(to_text(order)) + " seed " + std::to_string(seed));
      expect_right(g, costs, seed, cuts::of_all_axes);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(networks, tiny_races, ::testing::Bool());

}  // namespace
