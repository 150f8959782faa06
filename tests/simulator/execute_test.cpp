// Lanes, waits, prices and counters of single iterations, by plans written by hand.
#include "simulator/execute.hpp"

#include <gtest/gtest.h>

#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

TEST(execute, computes_run_one_after_the_other) {
  hand_plan h;
  h.add_compute(3 * ms, {});
  h.add_compute(4 * ms, {});
  const trace t = h.simulate(1).front();
  EXPECT_EQ(t.duration, 7 * ms);
  EXPECT_TRUE(t.spans.empty());
  EXPECT_TRUE(t.memory_samples.empty());
}

TEST(execute, every_counter_is_filled_also_when_nothing_moves) {
  hand_plan h;
  h.add_compute(1, {});
  const counters c = h.simulate(1).front().counts;
  for (const counter_field& f : counter_fields) EXPECT_EQ(c.*f.member, 0U) << f.name;
}

TEST(execute, a_copy_hidden_under_compute_costs_nothing) {
  hand_plan h;
  const tensor_id x = h.add_tensor(20, residence::staged, {space::device, 0});
  h.add_move(prefetch{x, {}}, x);  // 2 ms
  h.add_compute(5 * ms, {});
  const trace t = h.simulate(1).front();
  EXPECT_EQ(t.duration, 5 * ms);
  EXPECT_EQ(t.counts.copy_to_device_bytes, 20 * managed_block);
}

TEST(execute, a_step_waits_for_the_steps_it_names) {
  hand_plan h;
  const tensor_id x = h.add_tensor(20, residence::staged, {space::device, 0});
  const std::int32_t copy = h.add_move(prefetch{x, {}}, x);
  const std::int32_t use = h.add_compute(5 * ms, {}, {copy});
  h.add_move(evict{x, {}}, x, {use});
  const trace t = h.simulate(1, true).front();
  EXPECT_EQ(t.duration, 9 * ms);
  ASSERT_EQ(t.spans.size(), 3U);
  EXPECT_EQ(t.spans[1].begin, 2 * ms);
  EXPECT_EQ(t.spans[1].end, 7 * ms);
  EXPECT_EQ(t.spans[2].in_lane, lane::to_host);
  EXPECT_EQ(t.spans[2].begin, 7 * ms);
  EXPECT_EQ(t.counts.copy_to_host_bytes, 20 * managed_block);
}

TEST(execute, a_copy_that_is_not_needed_costs_and_moves_nothing) {
  hand_plan h;
  const tensor_id x = h.add_tensor(20, residence::staged, {space::device, 0});
  h.add_move(evict{x, {}}, x);
  h.plan.steps.back().is_needed = false;
  h.add_compute(1 * ms, {}, {0});
  const trace t = h.simulate(1, true).front();
  EXPECT_EQ(t.duration, 1 * ms);
  EXPECT_EQ(t.counts.copy_to_host_bytes, 0U);
  EXPECT_EQ(t.spans.size(), 1U);
}

TEST(execute, every_copy_pays_its_fixed_cost) {
  hand_plan h;
  h.on.copy_ns = 11;
  const tensor_id x = h.add_tensor(10, residence::staged, {space::device, 0});
  h.add_move(prefetch{x, {}}, x);
  h.plan.steps.back().copies.push_back(h.plan.steps.back().copies.front());
  EXPECT_EQ(h.simulate(1).front().duration, 2 * ms + 22);
  h.on.launch_ns = 5;
  h.plan.steps.back().copies.back().made_by = copier::kernel;
  EXPECT_EQ(h.simulate(1).front().duration, 2 * ms + 11 + 5);
}

TEST(execute, faults_stall_the_kernel) {
  hand_plan h;
  h.on.uvm.interrupt_ns = 9;
  h.on.uvm.first_visit_ns = 3;
  h.on.uvm.service_ns = 5;
  const tensor_id x = h.add_tensor(4, residence::managed, managed_at(0), role::input);
  const tensor_id y = h.add_tensor(4, residence::managed, managed_at(4));
  h.add_compute(1 * ms, {h.whole(x, reads), h.whole(y, writes)});
  const std::vector<trace> all = h.simulate(2);
  // Four copies, four blocks with host pages, eight services, one interrupt before the faults flow.
  EXPECT_EQ(all[0].duration, 1 * ms + 4 * ms / 10 + 4 * 3 + 8 * 5 + 9);
  EXPECT_EQ(all[0].counts.faults, 8U * 32U);
  EXPECT_EQ(all[0].counts.fault_batches, 8U);
  EXPECT_EQ(all[0].counts.fault_to_device_bytes, 4 * managed_block);
  EXPECT_EQ(all[1].duration, 1 * ms) << "residency carries over";
  EXPECT_EQ(all[1].counts.faults, 0U);
}

TEST(execute, the_driver_evicts_within_what_the_budget_leaves) {
  hand_plan h;
  const tensor_id x = h.add_tensor(6, residence::managed, managed_at(0), role::input);
  h.plan.evicted_by = evictor::driver;
  h.plan.device_arena_bytes = 3 * managed_block;
  h.plan.budget = 8 * managed_block - 1;  // leaves 4 whole blocks
  h.add_compute(1 * ms, {h.whole(x, reads)});
  const std::vector<trace> all = h.simulate(3, true);
  EXPECT_EQ(all[0].counts.driver_evict_bytes, 2 * managed_block);
  for (int i : {1, 2}) {
    const trace& t = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(t.counts.fault_to_device_bytes, 6 * managed_block);
    EXPECT_EQ(t.counts.driver_evict_bytes, 6 * managed_block);
    EXPECT_EQ(t.counts.evicted_blocks, 6U);
    EXPECT_EQ(t.duration, 1 * ms + 12 * ms / 10) << "each copy in waits for its copy out";
    for (const memory_sample& s : t.memory_samples) EXPECT_LE(s.bytes, h.plan.budget);
    EXPECT_EQ(t.memory_samples.back().bytes, 7 * managed_block);
  }
}

TEST(execute, a_budget_that_leaves_no_block_is_infeasible) {
  hand_plan h;
  const tensor_id x = h.add_tensor(1, residence::managed, managed_at(0));
  h.add_compute(1, {h.whole(x, writes)});
  h.plan.evicted_by = evictor::driver;
  h.plan.budget = managed_block - 1;
  EXPECT_THROW(h.simulate(1), infeasible);
  h.plan.budget = managed_block;
  EXPECT_NO_THROW(h.simulate(1));
}

TEST(execute, without_the_driver_the_machine_is_the_limit) {
  hand_plan h;
  h.on.device_bytes = 4 * managed_block;
  h.plan.budget = managed_block;  // kept by the plan, not by the driver
  h.plan.evicted_by = evictor::plan;
  const tensor_id x = h.add_tensor(6, residence::managed, managed_at(0), role::input);
  h.add_compute(1, {h.whole(x, reads)});
  EXPECT_EQ(h.simulate(1).front().counts.evicted_blocks, 2U);
}

TEST(execute, managed_evictions_of_the_plan_run_beside_compute_and_count_as_the_plans) {
  hand_plan h;
  const tensor_id x = h.add_tensor(5, residence::managed, managed_at(0), role::input);
  const std::int32_t use = h.add_compute(1 * ms, {h.whole(x, reads)});
  h.on.uvm.host_map_page_ns = 391;     // 5 blocks/ms
  h.add_move(evict{x, {}}, x, {use});  // 1 ms
  h.add_compute(3 * ms, {});
  const trace t = h.simulate(1).front();
  EXPECT_EQ(t.duration, 1 * ms + 5 * ms / 10 + 3 * ms);
  EXPECT_EQ(t.counts.plan_evict_bytes, 5 * managed_block);
  EXPECT_EQ(t.counts.driver_evict_bytes, 0U);
}

TEST(execute, a_managed_prefetch_under_compute_saves_the_faults) {
  hand_plan h;
  h.on.uvm.prefetch_queued_ns = 13;
  const tensor_id x = h.add_tensor(10, residence::managed, managed_at(0), role::input);
  const std::int32_t fetched = h.add_move(prefetch{x, {}}, x);  // 1 ms
  h.add_compute(2 * ms, {});
  h.add_compute(2 * ms, {h.whole(x, reads)}, {fetched});
  const trace t = h.simulate(1, true).front();
  EXPECT_EQ(t.duration, 4 * ms);
  EXPECT_EQ(t.counts.prefetch_to_device_bytes, 10 * managed_block);
  EXPECT_EQ(t.counts.faults, 0U);
  EXPECT_EQ(t.spans[0].end, 1 * ms + 2 * 13) << "two walks";
}

TEST(execute, advice_and_discard_take_effect) {
  hand_plan h;
  h.on.uvm.discard_block_ns = 10;
  h.on.uvm.page_fault_ns = 100;
  const tensor_id x = h.add_tensor(10, residence::managed, managed_at(0), role::input);
  const tensor_id y = h.add_tensor(2, residence::managed, managed_at(10));
  h.add_move(advise{x, advice::preferred_host}, x);
  h.add_compute(1 * ms, {h.whole(x, reads)});
  h.add_compute(1 * ms, {h.whole(y, writes)});
  h.add_move(discard{y, {}}, y);
  const std::vector<trace> all = h.simulate(2);
  const nanoseconds pages = 512 * 100;
  EXPECT_EQ(all[0].duration, 1 * ms + 1 * ms + 1 * ms + 20) << "zero-copy, discard";
  EXPECT_EQ(all[1].duration, 1 * ms + 1 * ms + 1 * ms + 2 * pages + 20)
      << "a write to discarded data is dear";
}

// What a discard ends at beside a prefetch of 10 blocks, which takes 1 ms, and the prefetch beside it.
std::pair<nanoseconds, nanoseconds> discard_beside_fetch(residence fetched, residence dead,
                                                         bool discard_first) {
  hand_plan h;
  h.on.uvm.discard_block_ns = 1000;
  const address home = fetched == residence::managed ? managed_at(0) : address{space::device, 0};
  const tensor_id x = h.add_tensor(10, fetched, home, role::input);
  const tensor_id y = h.add_tensor(2, dead, managed_at(10));
  if (!discard_first) h.add_move(prefetch{x, {}}, x);
  h.add_move(discard{y, {}}, y);
  h.plan.steps.back().in_lane = lane::to_host;
  if (discard_first) h.add_move(prefetch{x, {}}, x);
  const trace t = h.simulate(1, true).front();
  std::pair<nanoseconds, nanoseconds> ends;
  for (const span& s : t.spans) (s.in_lane == lane::to_host ? ends.first : ends.second) = s.end;
  return ends;
}

TEST(execute, a_discard_and_any_other_call_of_the_driver_wait_for_each_other) {
  using ends = std::pair<nanoseconds, nanoseconds>;
  for (const residence dead : {residence::managed, residence::twinned}) {
    EXPECT_EQ(discard_beside_fetch(residence::managed, dead, false), ends(1 * ms + 2000, 1 * ms));
    EXPECT_EQ(discard_beside_fetch(residence::managed, dead, true), ends(2000, 1 * ms + 2000));
    EXPECT_EQ(discard_beside_fetch(residence::staged, dead, false), ends(2000, 1 * ms))
        << "a copy of staged data is no call of the driver";
  }
}

TEST(execute, operands_at_home_in_pinned_memory_are_read_over_the_link) {
  hand_plan h;
  const tensor_id x = h.add_tensor(10, residence::host, {space::pinned, 0}, role::input);
  h.add_compute(1 * ms, {h.whole(x, reads)});
  EXPECT_EQ(h.simulate(1).front().duration, 2 * ms);
}

TEST(execute, a_slice_takes_its_share_and_touches_its_bytes) {
  hand_plan h;
  h.on.launch_ns = 100;
  const tensor_id x = h.add_tensor(4, residence::managed, managed_at(0), role::input);
  h.add_compute(100 + 1000, {h.whole(x, reads)});
  h.network.ops[0].in = h.network.ops[0].out = {x};
  const dims shape = h.network.tensors[x].shape;
  for (std::int64_t p : {0, 1, 2}) {
    step s = h.plan.steps.front();
    s.command = compute{0, {{p, p + 1}, {}, {}, {}}};
    s.operands[0].accessed.where = region_of(shape, {{p, p + 1}, {}, {}, {}});
    s.operands[0].location.offset += static_cast<byte_count>(p) * managed_block;
    h.plan.steps.push_back(s);
  }
  h.plan.steps.erase(h.plan.steps.begin());
  const std::vector<trace> all = h.simulate(2);
  EXPECT_EQ(all[0].counts.faults, 3U * 32U) << "the fourth row is not touched";
  EXPECT_EQ(all[1].duration, 3 * 100 + 750) << "a launch each, and three quarters of the rest";
}

TEST(execute, regions_across_the_batch_touch_only_their_own_bytes) {
  hand_plan h;
  const tensor_id x = h.add_tensor(3, residence::managed, managed_at(0), role::input);
  const std::int64_t floats = static_cast<std::int64_t>(managed_block / 4);
  h.network.tensors[x].shape = {1, 6, floats, 1};  // six channels of one block
  h.plan.managed_arena_bytes = 6 * managed_block;
  operand o = h.whole(x, reads);
  o.accessed.where = {{0, 1}, {2, 4}, {0, floats}};
  o.location.offset += 2 * managed_block;
  h.add_compute(1, {o});
  managed_memory memory = managed_at_start(h.run());
  run_iteration(h.run(), memory, false);
  for (std::uint64_t b = 0; b < 6; ++b) EXPECT_EQ(memory.state(b).on_device != 0, b == 2 || b == 3) << b;

  h.network.tensors[x].shape = {1, 2, 3, floats};  // two channels of three rows of one block
  h.plan.steps[0].operands[0].accessed.where = {{0, 1}, {0, 2}, {1, 2}};
  h.plan.steps[0].operands[0].location.offset = h.plan.at_start[x].offset + managed_block;
  managed_memory rows = managed_at_start(h.run());
  run_iteration(h.run(), rows, false);
  for (std::uint64_t b = 0; b < 6; ++b) EXPECT_EQ(rows.state(b).on_device != 0, b == 1 || b == 4) << b;
}

TEST(execute, operators_in_place_touch_their_bytes_once) {
  hand_plan h;
  const tensor_id x = h.add_tensor(5, residence::managed, managed_at(0), role::input);
  h.plan.evicted_by = evictor::driver;
  h.plan.budget = 4 * managed_block;
  h.add_compute(1, {h.whole(x, reads), h.whole(x, writes)});
  EXPECT_EQ(h.simulate(2)[1].counts.fault_batches, 5U);
}

TEST(execute, only_tensors_that_persist_start_on_the_host) {
  hand_plan h;
  h.add_tensor(1, residence::managed, managed_at(0), role::parameter);
  h.add_tensor(1, residence::managed, managed_at(1), role::activation);
  const managed_memory m = managed_at_start(h.run());
  EXPECT_EQ(m.state(0).on_host, all_granules);
  EXPECT_EQ(m.state(1).on_host, 0U);
}

TEST(execute, an_iteration_is_never_shorter_than_its_operators) {
  hand_plan h;
  const tensor_id x = h.add_tensor(8, residence::managed, managed_at(0), role::input);
  nanoseconds sum = 0;
  for (nanoseconds t : {3, 999, 12345}) {
    h.add_compute(t, {h.whole(x, reads)});
    sum += t;
  }
  for (const trace& t : h.simulate(3)) EXPECT_GE(t.duration, sum);
}

TEST(execute, memory_in_use_follows_the_lanes_in_time) {
  hand_plan h;
  h.plan.evicted_by = evictor::plan;
  const tensor_id x = h.add_tensor(10, residence::staged, {space::device, 0});
  const std::int32_t first = h.add_compute(5 * ms, {});
  h.plan.steps.back().resident_bytes = 100;
  h.add_move(evict{x, {}}, x, {first});  // 1 ms, in [5, 6]
  h.plan.steps.back().resident_bytes = 40;
  h.add_move(prefetch{x, {}}, x);  // in [0, 1], though later in the list
  h.plan.steps.back().resident_bytes = 70;
  const trace t = h.simulate(1, true).front();
  ASSERT_EQ(t.memory_samples.size(), 2U);
  EXPECT_EQ(t.memory_samples[0].time, 0);
  EXPECT_EQ(t.memory_samples[0].bytes, 70U + 30U + 30U);
  EXPECT_EQ(t.memory_samples[1].time, 6 * ms);
  EXPECT_EQ(t.memory_samples[1].bytes, 70U);
}

TEST(execute, memory_let_go_without_a_copy_is_in_use_until_its_readers_end) {
  hand_plan h;
  h.plan.evicted_by = evictor::plan;
  const tensor_id x = h.add_tensor(10, residence::staged, {space::device, 0});
  h.add_compute(3 * ms, {});
  h.plan.steps.back().resident_bytes = 100;
  h.add_compute(2 * ms, {});
  h.plan.steps.back().resident_bytes = 100;
  h.add_move(evict{x, {}}, x);  // the home copy is valid: over at once, in the list after both computes
  h.plan.steps.back().is_needed = false;
  h.plan.steps.back().resident_bytes = 40;
  const trace t = h.simulate(1, true).front();
  ASSERT_EQ(t.memory_samples.size(), 2U);
  EXPECT_EQ(t.memory_samples[0].bytes, 100U);
  EXPECT_EQ(t.memory_samples[1].time, 5 * ms);
  EXPECT_EQ(t.memory_samples[1].bytes, 40U);
}

TEST(execute, steps_that_wait_for_one_another_are_refused) {
  hand_plan h;
  h.add_compute(1, {});
  const tensor_id x = h.add_tensor(1, residence::staged, {space::device, 0});
  h.add_move(prefetch{x, {}}, x, {0});
  h.plan.steps[0].waits_for[static_cast<std::size_t>(lane::to_device)] = 1;
  EXPECT_THROW(h.simulate(1), std::invalid_argument);
}

TEST(execute, a_profile_of_another_network_is_refused) {
  hand_plan h;
  h.add_compute(1, {});
  h.costs.clear();
  EXPECT_THROW(h.simulate(1), std::invalid_argument);
}

}  // namespace
}  // namespace um
