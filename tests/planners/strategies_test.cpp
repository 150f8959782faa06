// Every strategy x every small network x budgets from 1.2 down to 0.3 of the footprint, with each
// evictor: the plan verifies, is the same each time, fits its budget and is no faster than the critical
// path, every read finds its tensor and no steps race, or the cell is infeasible with a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "backends/simulator_backend.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"
#include "tests/machines.hpp"
#include "tests/planners/memory_replay.hpp"
#include "tests/planners/races.hpp"
#include "tests/planners/small_networks.hpp"

namespace {

using namespace um;
using namespace um::testing;

// But what asks an optional solver, and takes its time (papers_test has it).
std::vector<strategy> all_strategies() {
  std::vector<strategy> all(planners().begin(), planners().end());
  std::erase_if(all, [](const strategy& s) { return complete_knobs(s, {}).contains("nodes"); });
  all.insert(all.end(), hint_strategies().begin(), hint_strategies().end());
  return all;
}

// The defaults, but with short searches.
knob_values quick_knobs(const strategy& s) {
  knob_values knobs = complete_knobs(s, {});
  if (knobs.contains("trials")) knobs["trials"] = 2;
  return knobs;
}

// Strategies that only advise plan as `managed` does: fewer budgets do.
bool only_advises(const strategy& s) {
  return std::ranges::any_of(hint_table(), [&](const hint_strategy& row) {
    return row.name == s.name && !row.rules.empty() && std::ranges::all_of(row.rules, [](const hint_rule& r) {
             return std::holds_alternative<advice_rule>(r.policy);
           });
  });
}

// Tenths of the footprint between two budgets: all of them for the planners and plain managed memory.
int step_of(const strategy& s) {
  if (only_advises(s)) return 6;
  if (s.name.starts_with("best")) return 7;  // takes longest, and rivals_test asks more of it
  return find_strategy(planners(), s.name) != nullptr || s.name == "managed" ? 1 : 3;
}

nanoseconds compute_time(const profile& costs) {
  nanoseconds sum = 0;
  for (const op_cost& c : costs) sum += c.time;
  return sum;
}

// Every step waits only for earlier steps of other lanes.
void expect_sound_waits(const execution_plan& e) {
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    for (std::size_t l = 0; l < lane_count; ++l) {
      const std::int32_t waited = e.steps[i].waits_for[l];
      if (waited == no_step) continue;
      ASSERT_LT(waited, static_cast<std::int32_t>(i));
      EXPECT_EQ(static_cast<std::size_t>(e.steps[static_cast<std::size_t>(waited)].in_lane), l);
      EXPECT_NE(static_cast<std::size_t>(e.steps[i].in_lane), l) << "order within a lane needs no wait";
    }
  }
}

void expect_operands_inside(const execution_plan& e, const graph& g) {
  for (const step& s : e.steps) {
    for (const operand& o : s.operands) {
      const byte_count arena = o.location.where == space::device    ? e.device_arena_bytes
                               : o.location.where == space::managed ? e.managed_arena_bytes
                                                                    : e.pinned_arena_bytes;
      const tensor& t = g.tensors[o.accessed.tensor];
      EXPECT_LE(o.location.offset + bytes_of(t, o.accessed.where), arena) << t.name;
    }
  }
}

// Stretches of memory that copies of explicit memory move one by one.
byte_count copied_rows(const execution_plan& e) {
  byte_count rows = 0;
  for (const step& s : e.steps) {
    for (const auto* copies : {&s.gathers, &s.scatters, &s.copies}) {
      for (const pitched_copy& c : *copies) rows += c.depth * c.height;
    }
  }
  return rows;
}

// Strategies to be held on a small network: one, or all those that only advise, which plan alike.
struct cell {
  std::string network, label;
  std::vector<strategy> by;
};

std::vector<cell> cells() {
  std::vector<cell> all;
  for (const std::string& network : small_network_labels()) {
    cell advising{network, "advice", {}};
    for (const strategy& s : all_strategies()) {
      if (only_advises(s)) {
        advising.by.push_back(s);
      } else {
        all.push_back({network, s.name, {s}});
      }
    }
    all.push_back(std::move(advising));
  }
  return all;
}

class every_strategy : public ::testing::TestWithParam<cell> {
 protected:
  void expect_sound(const strategy& by, evictor evicted_by);
  bool solves(const strategy& by, const problem& p);

  graph g = small_graph(GetParam().network);
  std::unique_ptr<backend> sim = open_simulator(managed_test_machine());
  machine on = sim->describe();
  profile costs = sim->measure_operators(g);
  byte_count footprint = footprint_of(g, costs).total;
};

// Papers' planners say what they need; most of them plan as `device` where everything fits, but policies that
// look at the network alone say by a knob what moves.
void expect_reason(const strategy& by, const problem& p, const std::string& why) {
  EXPECT_GT(why.size(), 20U);
  if (by.source.empty() || by.kind == family::managed) return;
  const bool in_figures = why.find("the budget is " + to_text(p.budget)) != std::string::npos;
  EXPECT_TRUE(in_figures || why.starts_with("micro-batches cannot go through ")) << why;
}
bool keeps_what_fits(const strategy& by) {
  return !by.source.empty() && std::ranges::none_of(by.knobs, [](const knob& k) {
    return k.name == "fastest" || k.name == "ahead";
  });
}

// Whether there is a plan; a plan that there is must be sound.
bool every_strategy::solves(const strategy& by, const problem& p) {
  memory_plan plan;
  try {
    plan = by.plan(p);
  } catch (const infeasible& refused) {
    expect_reason(by, p, refused.what());
    return false;
  }
  try {
    const auto defect = defect_of(g, plan);
    EXPECT_EQ(defect, std::nullopt);
    if (defect) return false;
    if (p.budget >= footprint_of(g, costs, by.packing_algorithm).total && keeps_what_fits(by)) {
      EXPECT_EQ(plan, plan_resident(p));
    }
    const execution_plan e = lower(p, plan, by.packing_algorithm);
    EXPECT_LE(e.device_arena_bytes, p.budget);
    if (p.evicted_by == evictor::plan) {
      EXPECT_LE(e.peak_device_bytes, p.budget);
    }
    expect_sound_waits(e);
    expect_operands_inside(e, g);
    constexpr byte_count most_rows = 20'000;  // replaying more takes seconds; random plans have such copies
    if (p.evicted_by == evictor::plan && copied_rows(e) <= most_rows) {
      expect_every_read_finds_its_tensor(g, e);
      EXPECT_EQ(find_race(g, e), std::nullopt);
    }
    const execution run = sim->execute(g, e, {2, false, false});
    for (const trace& t : run.iterations) EXPECT_GE(t.duration, compute_time(costs));
    return true;
  } catch (const infeasible& refused) {
    EXPECT_FALSE(by.keeps_budget) << "a planner that knows the budget must keep it: " << refused.what();
    EXPECT_GT(std::string(refused.what()).size(), 20U);
    return false;
  }
}

void every_strategy::expect_sound(const strategy& by, evictor evicted_by) {
  int solved = 0;
  for (int tenths = 12; tenths >= 3; tenths -= step_of(by)) {
    SCOPED_TRACE(by.name + (evicted_by == evictor::plan ? " by plan, " : " by driver, ") +
                 std::to_string(tenths) + " tenths");
    const byte_count budget = footprint * static_cast<byte_count>(tenths) / 10;
    solved += solves(by, {g, costs, on, budget, evicted_by, quick_knobs(by)}) ? 1 : 0;
  }
  EXPECT_GE(solved, 1) << by.name << ": feasible at 1.2 times the footprint at least";
  if (evicted_by != evictor::plan) return;
  const problem again{g, costs, on, footprint / 10 * 9, evicted_by, quick_knobs(by)};
  try {
    EXPECT_EQ(by.plan(again), by.plan(again)) << by.name;
  } catch (const infeasible&) {
  }
}

TEST_P(every_strategy, verifies_and_fits_and_respects_the_critical_path_or_says_why_not) {
  for (const strategy& by : GetParam().by) {
    for (const evictor evicted_by : {evictor::plan, evictor::driver}) expect_sound(by, evicted_by);
  }
}

INSTANTIATE_TEST_SUITE_P(cells, every_strategy, ::testing::ValuesIn(cells()),
                         [](const auto& row) { return row.param.network + "_" + row.param.label; });

struct swap_all : ::testing::Test {
  graph g = small("vgg11", "vgg11", 16).g;
  std::unique_ptr<backend> sim = open_simulator(managed_test_machine());
  machine on = sim->describe();
  profile costs = sim->measure_operators(g);
  const strategy& by = *find_strategy(planners(), "swap_all");
};

TEST_F(swap_all, offloads_exactly_what_the_backward_pass_reads_again) {
  const byte_count footprint = footprint_of(g, costs).total;
  const problem p{g, costs, on, footprint * 9 / 10, evictor::none, complete_knobs(by, {})};
  const memory_plan plan = by.plan(p);
  for (const action& a : plan.actions) {
    if (const auto* e = std::get_if<evict>(&a)) {
      EXPECT_TRUE(g.tensors[e->tensor].role == role::activation || g.tensors[e->tensor].role == role::input);
    }
  }
  const execution_plan e = lower(p, plan);
  EXPECT_LE(e.device_arena_bytes, p.budget) << "swapping must save device memory";
  const trace t = sim->execute(g, e, {1, false, false}).iterations.front();
  // A tensor leaves over the link once, however often it is fetched: its home stays valid.
  byte_count fetched = 0, written = 0;
  std::vector<bool> at_home(g.tensors.size(), false);
  for (tensor_id x = 0; x < g.tensors.size(); ++x) at_home[x] = persists(g.tensors[x].role);
  for (const action& a : plan.actions) {
    if (const auto* f = std::get_if<prefetch>(&a)) fetched += bytes_of(g.tensors[f->tensor]);
    if (const auto* gone = std::get_if<evict>(&a); gone && !at_home[gone->tensor]) {
      written += bytes_of(g.tensors[gone->tensor]);
      at_home[gone->tensor] = true;
    }
  }
  EXPECT_EQ(t.counts.copy_to_device_bytes, fetched);
  EXPECT_EQ(t.counts.copy_to_host_bytes, written);
  EXPECT_GT(written, 0U);
}

TEST_F(swap_all, with_room_a_deeper_look_ahead_hides_more) {
  nanoseconds before = std::numeric_limits<nanoseconds>::max();
  for (const std::int64_t ahead : {0, 2, 8}) {
    const problem p{g, costs, on, GiB * 64, evictor::none, complete_knobs(by, {{"ahead", ahead}})};
    const nanoseconds now =
        sim->execute(g, lower(p, by.plan(p)), {1, false, false}).iterations.front().duration;
    EXPECT_LT(now, before);
    before = now;
  }
}

TEST(knobs, unknown_names_and_values_out_of_range_are_refused) {
  const strategy& by = *find_strategy(planners(), "swap_all");
  EXPECT_EQ(complete_knobs(by, {}).at("ahead"), 2);
  EXPECT_THROW(complete_knobs(by, {{"behind", 1}}), std::invalid_argument);
  EXPECT_THROW(complete_knobs(by, {{"ahead", -1}}), std::invalid_argument);
  EXPECT_THROW(complete_knobs(by, {{"ahead", 65}}), std::invalid_argument);
  EXPECT_EQ(find_strategy(planners(), "no_such"), nullptr);
}

}  // namespace
