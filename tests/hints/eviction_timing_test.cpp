// Where evictions go within a plan.
#include "hints/eviction_timing.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/lower.hpp"
#include "core/verify.hpp"
#include "hints/make_room.hpp"
#include "simulator/simulate.hpp"
#include "tests/core/chain.hpp"

namespace {

using namespace um;
using namespace um::testing;

// What a kernel reaches over a link on which copies to twins take that rate.
constexpr std::uint64_t twin_copy_percent = 92;
constexpr std::uint64_t reached_for(std::uint64_t rate) {
  return (rate * 100 + twin_copy_percent - 1) / twin_copy_percent;
}

// Computes of 1 ms each on tensors of 8 MiB, which take 2 ms to copy and next to nothing to discard.
struct timing : ::testing::Test {
  graph g = chain(8);
  profile costs;
  machine m;
  timing() {
    for (tensor& t : g.tensors) t.shape = {8, 256, 64, 16};
    costs = profile(g.ops.size(), op_cost{1'000'000, 0, "test"});
    m.name = "even";
    m.device_bytes = m.host_bytes = 64 * GiB;
    m.fp32_flops_per_s = m.device_bytes_per_s = 1'000'000'000'000;
    m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = reached_for(4 * GiB);
    m.link_both_bytes_per_s = 8 * GiB;
    m.slice_ns = 20'000;
    m.beside_copy_percent = 3;
    m.uvm.remote_read_bytes_per_s = m.uvm.remote_write_bytes_per_s = reached_for(4 * GiB);
    m.uvm.twin_copy_percent = twin_copy_percent;
    m.uvm.discard_block_ns = 1000;
    m.uvm.populate_ns = 1000;
  }
  problem with(byte_count budget) { return {g, costs, m, budget, evictor::plan, {}}; }
  memory_plan twinned() {
    memory_plan plan = in_order(g, residence::managed);
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      if (!survives(g.tensors[t].role)) plan.residences[t] = residence::twinned;
    }
    return plan;
  }
  memory_plan within(byte_count budget) {
    eviction_options rules;
    rules.order = evict_order::furthest_use;
    rules.prefetch_inputs = rules.populate_outputs = true;
    rules.is_discarded.assign(g.tensors.size(), true);
    const problem p = with(budget);
    const memory_plan draft = twinned();
    return make_room(p, draft, placement_of_draft(p, draft, packers::searched), rules);
  }
  memory_plan timed(byte_count budget, const memory_plan& plan) {
    const problem p = with(budget);
    return retime_evictions(p, plan, placement(p, plan, packers::searched));
  }
  std::size_t place(const memory_plan& plan, const std::string& text) const {
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      if (to_text(g, plan.actions[i]) == text) return i;
    }
    ADD_FAILURE() << "no " << text;
    return 0;
  }
  // Computes between the start of the list and that action.
  std::int64_t computes_before(const memory_plan& plan, const std::string& text) const {
    return std::count_if(plan.actions.begin(),
                         plan.actions.begin() + static_cast<std::ptrdiff_t>(place(plan, text)),
                         [](const action& a) { return std::holds_alternative<compute>(a); });
  }
};

std::vector<std::string> sorted_texts(const graph& g, const memory_plan& plan) {
  std::vector<std::string> all;
  for (const action& a : plan.actions) all.push_back(to_text(g, a));
  std::ranges::sort(all);
  return all;
}

TEST_F(timing, only_reorders_and_keeps_computes_values_and_the_budget) {
  for (const std::uint64_t rate : {64 * GiB, 4 * GiB, GiB}) {
    m.link_to_host_bytes_per_s = m.uvm.remote_write_bytes_per_s = rate;
    for (const byte_count budget : {24 * MiB, 40 * MiB, 64 * MiB}) {
      const memory_plan plan = within(budget), after = timed(budget, plan);
      EXPECT_EQ(sorted_texts(g, after), sorted_texts(g, plan));
      std::vector<op_id> order;
      for (const action& a : after.actions) {
        if (const auto* c = std::get_if<compute>(&a)) order.push_back(c->op);
      }
      EXPECT_TRUE(std::ranges::is_sorted(order));
      EXPECT_EQ(defect_of(g, after), std::nullopt);
      EXPECT_NO_THROW(lower(with(budget), after)) << "evictions wait no longer than the budget allows";
    }
  }
}

TEST_F(timing, an_eviction_goes_to_behind_the_last_use) {
  memory_plan plan = twinned();
  const tensor_id y0 = named(g, "y0");
  plan.actions.insert(plan.actions.begin() + 6, evict{y0, {}});  // behind relu5; relu1 was the last to use it
  plan.actions.insert(plan.actions.end() - 1, prefetch{y0, {}});  // for back0
  const memory_plan after = timed(GiB, plan);
  EXPECT_EQ(computes_before(plan, "evict y0"), 6);
  EXPECT_EQ(computes_before(after, "evict y0"), 2);
}

// While copies of 2 ms each keep the lane busy, a discard that takes no time is not to wait behind them.
TEST_F(timing, an_eviction_makes_way_for_a_discard) {
  memory_plan plan = twinned();
  const tensor_id y0 = named(g, "y0"), y1 = named(g, "y1"), y7 = named(g, "y7"), d7 = named(g, "d7");
  const auto at = [&](std::size_t computes) {
    return plan.actions.begin() + static_cast<std::ptrdiff_t>(computes);
  };
  // From the end to the start, so that places are numbers of computes.
  plan.actions.insert(at(15), prefetch{y0, {}});
  plan.actions.insert(at(14), prefetch{y1, {}});
  plan.actions.insert(at(10), discard{d7, {}});  // read last by back6, the tenth compute
  plan.actions.insert(at(9), discard{y7, {}});   // read last by back7, the ninth
  plan.actions.insert(at(9), evict{y1, {}});
  plan.actions.insert(at(9), evict{y0, {}});
  const memory_plan after = timed(GiB, plan);
  EXPECT_EQ(computes_before(after, "evict y0"), 2) << "the lane is free";
  EXPECT_EQ(computes_before(after, "evict y1"), 4) << "2 ms later, when y0 has left";
  EXPECT_EQ(computes_before(after, "discard y7"), 9);
  EXPECT_EQ(computes_before(after, "discard d7"), 10);
  // Where the link is so slow that y0 is still under way, discards go first.
  m.link_to_host_bytes_per_s = m.uvm.remote_write_bytes_per_s = reached_for(GiB);  // 8 ms each
  const memory_plan slow = timed(GiB, plan);
  EXPECT_EQ(computes_before(slow, "evict y1"), 10);
  EXPECT_LT(place(slow, "discard y7"), place(slow, "evict y1"));
  EXPECT_LT(place(slow, "discard d7"), place(slow, "evict y1"));
}

TEST_F(timing, prefetches_stay_in_their_order) {
  const memory_plan plan = within(40 * MiB), after = timed(40 * MiB, plan);
  const auto calls = [&](const memory_plan& p) {
    std::vector<std::string> all;
    for (const action& a : p.actions) {
      if (!std::holds_alternative<evict>(a) && !std::holds_alternative<discard>(a))
        all.push_back(to_text(g, a));
    }
    return all;
  };
  EXPECT_EQ(calls(after), calls(plan));
}

TEST_F(timing, operators_take_longer_beside_copies_but_not_beside_discards) {
  const auto simulated = [&](const memory_plan& plan) {
    const problem p = with(GiB);
    return simulate(p, lower(p, plan), 3).back().duration;
  };
  const auto expected = [&](const memory_plan& plan) {
    const problem p = with(GiB);
    return expected_iteration_time(p, lower(p, plan));
  };
  const tensor_id y0 = named(g, "y0");
  memory_plan discards = twinned(), copies = twinned();
  discards.actions.push_back(discard{y0, {}});
  copies.actions.insert(copies.actions.end() - 1, prefetch{y0, {}});  // for back0
  copies.actions.insert(copies.actions.begin() + 2, evict{y0, {}});
  EXPECT_EQ(expected(discards), simulated(discards));
  EXPECT_GT(expected(copies), simulated(copies));
}

TEST(durations, follow_the_machine) {
  machine m;
  m.link_to_host_bytes_per_s = 2 * GiB;
  m.launch_ns = 5;
  m.uvm.prefetch_block_ns = 10;
  m.uvm.discard_block_ns = 7;
  m.uvm.host_map_page_ns = 1'000'000;
  m.uvm.prefetch_to_host_call_ns = 9;
  m.uvm.twin_copy_percent = twin_copy_percent;
  m.uvm.remote_write_bytes_per_s = reached_for(GiB);
  constexpr nanoseconds block = 1'953'125;  // 2 MiB at 1 GiB/s
  EXPECT_EQ(discard_time(m, 4), 28);
  EXPECT_EQ(evict_time(m, 4, residence::twinned), 5 + 4 * block);
  EXPECT_EQ(evict_time(m, 4, residence::managed), 9 + 4 * 20 + 4 * 512 * 1'000'000LL)
      << "mapping for the CPU";
  m.uvm.host_map_page_ns = 0;
  EXPECT_EQ(evict_time(m, 4, residence::managed), 9 + 4 * 20 + 2 * block) << "the copy";
}

}  // namespace
