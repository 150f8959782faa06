#include "core/lower.hpp"

#include <gtest/gtest.h>

#include <array>

#include "core/managed_map.hpp"
#include "core/verify.hpp"
#include "tests/core/chain.hpp"
#include "tests/refusal.hpp"

namespace {

using namespace um;
using namespace um::testing;

constexpr auto on_compute = static_cast<std::size_t>(lane::compute);
constexpr auto on_to_device = static_cast<std::size_t>(lane::to_device);
constexpr auto on_to_host = static_cast<std::size_t>(lane::to_host);

struct lowering : ::testing::Test {
  graph g = chain(3);  // actions 0-2 relu0..2, 3-5 back2..0
  profile costs = costs_of(g);
  machine m;
  problem p{g, costs, m, std::numeric_limits<byte_count>::max(), evictor::none, {}};
  tensor_id y0 = named(g, "y0");

  memory_plan swap_y0() {
    memory_plan plan = in_order(g, residence::device);
    plan.residences[y0] = residence::staged;
    plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});     // after relu1
    plan.actions.insert(plan.actions.begin() + 5, prefetch{y0, {}});  // before back1; back0 needs it
    return plan;
  }
};

TEST_F(lowering, the_footprint_is_the_packed_peak_and_its_terms_add_up) {
  const footprint_terms f = footprint_of(g, costs);
  // x, dy and d0 persist or survive; at back2 the three activations and d2 live besides x and dy.
  EXPECT_EQ(f.total, 6 * chain_bytes);
  EXPECT_EQ(f.inputs, 2 * chain_bytes);
  EXPECT_EQ(f.parameters + f.parameter_gradients + f.activations + f.activation_gradients + f.inputs +
                f.workspace + f.fragmentation,
            f.total);
}

TEST_F(lowering, workspaces_count) {
  const profile hungry = costs_of(g, 3 * chain_bytes);
  EXPECT_EQ(footprint_of(g, hungry).total, 9 * chain_bytes);
  EXPECT_EQ(footprint_of(g, hungry).workspace, 3 * chain_bytes);
}

TEST_F(lowering, an_operator_in_place_needs_no_second_tensor) {
  const byte_count before = footprint_of(g, costs).total;
  for (op& o : g.ops) o.alias = may_alias{o.in.size() == 2 ? 1U : 0U, 0};
  // dy persists, so back2 cannot take its place; back1 and back0 work in the place of d2.
  // Forward, every y is read again by the backward pass: nothing may be overwritten there.
  EXPECT_EQ(footprint_of(g, costs).total, before);
  const execution_plan e = lower(p, in_order(g, residence::device));
  EXPECT_EQ(e.steps[4].operands[1].location.offset, e.steps[4].operands[2].location.offset)
      << "back1 writes over d2";
  EXPECT_NE(e.steps[3].operands[1].location.offset, e.steps[3].operands[2].location.offset)
      << "back2 must keep dy";
  EXPECT_NE(e.steps[1].operands[0].location.offset, e.steps[1].operands[1].location.offset)
      << "relu1 must keep y0";
}

TEST_F(lowering, an_eviction_waits_for_the_last_use_and_a_use_for_the_fetch) {
  const execution_plan e = lower(p, swap_y0());
  ASSERT_EQ(e.steps.size(), 8U);
  EXPECT_EQ(e.steps[2].in_lane, lane::to_host);
  EXPECT_EQ(e.steps[2].waits_for[on_compute], 0) << "y0 was written by relu0; relu1 only reads it";
  EXPECT_EQ(e.steps[5].in_lane, lane::to_device);
  EXPECT_EQ(e.steps[5].waits_for[on_to_host], 2) << "the home is filled by the eviction";
  EXPECT_EQ(e.steps[7].waits_for[on_to_device], 5) << "back0 reads y0";
  EXPECT_EQ(e.steps[6].waits_for[on_to_device], no_step) << "back1 does not";
}

TEST_F(lowering, a_discard_of_device_memory_waits_for_nobody) {
  memory_plan plan = swap_y0();
  plan.actions.emplace_back(discard{y0, {}});
  const execution_plan e = lower(p, plan);
  EXPECT_EQ(e.steps.back().in_lane, lane::compute);
  EXPECT_EQ(e.steps.back().waits_for, no_steps);
}

TEST_F(lowering, a_new_tenant_waits_until_the_address_is_free) {
  const execution_plan e = lower(p, swap_y0());
  const pitched_copy& out_of = e.steps[2].copies.front();
  const range home{out_of.from.offset, bytes_of(out_of)};
  bool reused = false;
  for (const step& s : e.steps) {
    const auto* c = std::get_if<compute>(&s.command);
    if (c == nullptr || c->op < 2) continue;
    const operand& out = s.operands.back();
    if (out.location.offset < home.offset + home.bytes && home.offset < out.location.offset + chain_bytes) {
      EXPECT_EQ(s.waits_for[on_to_host], 2) << "writes where y0 lay";
      reused = true;
      break;
    }
  }
  EXPECT_TRUE(reused || e.device_arena_bytes == footprint_of(g, costs).total);
}

TEST_F(lowering, where_lanes_join_everything_before_has_ended) {
  memory_plan plan = swap_y0();  // relu0, relu1, evict, relu2, back2, prefetch, back1, back0
  EXPECT_EQ(lower(p, plan).steps[6].waits_for[on_to_device], no_step) << "back1 does not need y0";
  plan.joins = {6};
  const execution_plan e = lower(p, plan);
  EXPECT_EQ(e.steps[6].waits_for[on_to_device], 5);
  EXPECT_EQ(e.steps[6].waits_for[on_to_host], 2);
  EXPECT_EQ(e.steps[5].waits_for, lower(p, swap_y0()).steps[5].waits_for);
  plan.joins = {6, 5};
  EXPECT_NE(defect_of(g, plan), std::nullopt);
}

TEST_F(lowering, a_clean_eviction_moves_nothing) {
  memory_plan plan = in_order(g, residence::device);
  const tensor_id x = named(g, "x");
  plan.residences[x] = residence::staged;
  plan.actions.insert(plan.actions.begin(), prefetch{x, {}});
  plan.actions.insert(plan.actions.begin() + 2, evict{x, {}});
  const execution_plan e = lower(p, plan);
  EXPECT_TRUE(e.steps[0].is_needed);
  EXPECT_FALSE(e.steps[2].is_needed) << "the home copy of an input is never stale";
  EXPECT_EQ(e.pinned_arena_bytes, chain_bytes);
}

TEST_F(lowering, a_budget_below_the_arena_is_infeasible_with_the_figures) {
  p.budget = 5 * chain_bytes;
  const auto lowered = [&] { lower(p, in_order(g, residence::device)); };
  expect_words(refusal<infeasible>(lowered), {to_text(6 * chain_bytes)});
}

TEST_F(lowering, a_wrong_plan_is_refused) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions.pop_back();
  EXPECT_THROW(lower(p, plan), std::invalid_argument);
}

TEST_F(lowering, a_plan_is_proven_for_its_own_network) {
  const verified_plan plan = verify_plan(g, swap_y0());
  EXPECT_EQ(plan.plan(), swap_y0());
  EXPECT_EQ(lower(p, plan).steps.size(), 8U);
  EXPECT_EQ(lower(p, plan).device_arena_bytes, lower(p, swap_y0()).device_arena_bytes);
  const graph same = g;
  const problem other{same, costs, m, p.budget, evictor::none, {}};
  EXPECT_THROW(lower(other, plan), std::invalid_argument);
  memory_plan wrong = swap_y0();
  wrong.actions.pop_back();
  EXPECT_THROW(verify_plan(g, wrong), std::invalid_argument);
}

TEST_F(lowering, short_rows_are_copied_by_a_kernel) {
  memory_plan plan = in_order(g, residence::device);
  plan.residences[y0] = residence::staged;
  plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});
  plan.actions.insert(plan.actions.begin() + 6, prefetch{y0, {{}, {}, {0, 2}, {}}});  // rows of 64 bytes
  plan.actions.insert(plan.actions.begin() + 7, prefetch{y0, {{}, {}, {2, 32}, {}}});
  m.engine_row_bytes = 64;
  EXPECT_EQ(lower(p, plan).steps[6].copies.front().made_by, copier::engine);
  m.engine_row_bytes = 65;
  const execution_plan e = lower(p, plan);
  EXPECT_EQ(e.steps[6].copies.front().made_by, copier::kernel);
  EXPECT_EQ(e.steps[7].copies.front().made_by, copier::engine);
  m.engine_row_bytes = 2 * chain_bytes;
  EXPECT_EQ(lower(p, plan).steps[2].copies.front().made_by, copier::engine) << "one run, however short";
}

TEST_F(lowering, without_managed_memory_all_is_launched_in_stretches) {
  for (const step& s : lower(p, swap_y0()).steps) EXPECT_EQ(s.launch, launch_method::by_stretch);
}

TEST_F(lowering, batch_parts_fetched_one_by_one_need_one_part_of_room) {
  memory_plan plan = in_order(g, residence::device);
  plan.residences[y0] = residence::staged;
  // y0 is read in quarters by back0, each fetched just before; only relu1 needs it whole.
  plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});
  plan.actions.pop_back();
  for (std::uint32_t q = 0; q < 4; ++q) {
    plan.actions.emplace_back(prefetch{y0, batch_part(4, q, 4)});
    plan.actions.emplace_back(compute{5, batch_part(4, q, 4)});
    plan.actions.emplace_back(evict{y0, batch_part(4, q, 4)});
  }
  const execution_plan e = lower(p, plan);
  const step& second = e.steps[9];  // fetch of part 1
  ASSERT_TRUE(std::holds_alternative<prefetch>(second.command));
  ASSERT_EQ(second.copies.size(), 1U);
  EXPECT_EQ(bytes_of(second.copies.front()), chain_bytes / 4);
  EXPECT_EQ(second.copies.front().from.where, space::pinned);
  EXPECT_EQ(second.copies.front().from.offset, chain_bytes / 4);
  EXPECT_EQ(e.steps[10].waits_for[on_to_device], 9) << "tile 1 waits for part 1";
  EXPECT_EQ(e.steps[7].waits_for[on_to_device], 6) << "tile 0 waits for part 0 alone";
}

TEST_F(lowering, parts_get_the_workspaces_of_their_own_costs) {
  memory_plan plan = in_order(g, residence::device);
  plan.actions[0] = compute{0, batch_part(4, 0, 2)};
  plan.actions.insert(plan.actions.begin() + 1, compute{0, batch_part(4, 1, 2)});
  p.cost_of_slice = [](const compute& c) { return op_cost{1, c.part.batch.begin == 0 ? 0U : 5000U, {}}; };
  const execution_plan e = lower(p, plan);
  EXPECT_EQ(e.steps[0].workspace_bytes, 0U);
  EXPECT_EQ(e.steps[1].workspace_bytes, round_up(5000, arena_alignment));
  EXPECT_EQ(e.steps[2].workspace_bytes, 0U) << "whole operators have that of the profile";
}

TEST_F(lowering, row_parts_move_by_one_pitched_copy) {
  memory_plan plan = in_order(g, residence::device);
  plan.residences[y0] = residence::staged;
  plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});
  plan.actions.insert(plan.actions.begin() + 6, prefetch{y0, {{}, {}, {0, 16}, {}}});
  plan.actions.insert(plan.actions.begin() + 7, prefetch{y0, {{}, {}, {16, 32}, {}}});
  const execution_plan e = lower(p, plan);
  ASSERT_EQ(e.steps[6].copies.size(), 1U);
  const pitched_copy& first = e.steps[6].copies[0];
  EXPECT_EQ(first.height, 4U * 256U) << "one run a plane";
  EXPECT_EQ(first.width, 16U * 8U * 4U);
  EXPECT_EQ(first.from_pitch, 32U * 8U * 4U);
  EXPECT_EQ(e.steps[7].copies[0].from.offset - first.from.offset, 16U * 8U * 4U);
}

// Tensors of whole blocks: each chain tensor is 1 MiB, so take a bigger one.
struct managed_lowering : ::testing::Test {
  graph g = chain(3);
  profile costs = costs_of(g);
  machine m;
  managed_lowering() {
    for (tensor& t : g.tensors) t.shape = {8, 256, 64, 16};  // 8 MiB, four blocks
  }
  problem under(evictor by, byte_count budget) { return {g, costs, m, budget, by, {}}; }
};

TEST_F(managed_lowering, managed_tensors_share_one_arena_in_whole_blocks) {
  const execution_plan e = lower(under(evictor::none, GiB), in_order(g, residence::managed));
  EXPECT_EQ(e.device_arena_bytes, 0U);
  EXPECT_EQ(e.managed_arena_bytes, 6 * 8 * MiB);
  for (const step& s : e.steps) {
    for (const operand& o : s.operands) EXPECT_EQ(o.location.offset % managed_block, 0U);
  }
}

TEST_F(managed_lowering, says_how_evictions_are_called_and_operators_launched) {
  m.uvm.eviction_call_bytes = 4 * MiB;
  m.uvm.eviction_gives_way_ns = 7;
  memory_plan plan = in_order(g, residence::managed);
  plan.actions.insert(plan.actions.begin() + 1, evict{named(g, "x"), {}});
  const execution_plan e = lower(under(evictor::plan, 48 * MiB), plan);
  EXPECT_EQ(e.steps[0].launch, launch_method::as_operator);
  EXPECT_EQ(e.steps[1].launch, launch_method::by_call) << "the driver's calls cannot be recorded";
  EXPECT_EQ(e.steps[1].call_bytes, 4 * MiB);
  EXPECT_EQ(e.steps[1].pause_ns, 7);
  m.uvm.eviction_call_bytes = 1;
  EXPECT_EQ(lower(under(evictor::plan, 48 * MiB), plan).steps[1].call_bytes, managed_block);
  m.uvm.eviction_call_bytes = 0;
  EXPECT_EQ(lower(under(evictor::plan, 48 * MiB), plan).steps[1].call_bytes, 0U) << "all of it in one";
}

TEST_F(managed_lowering, launches_stretches_where_nothing_moves) {
  memory_plan plan = in_order(g, residence::managed);
  plan.actions.insert(plan.actions.begin(), advise{named(g, "x"), advice::preferred_device});
  for (const step& s : lower(under(evictor::plan, GiB), plan).steps)
    EXPECT_EQ(s.launch, launch_method::by_stretch) << "advice is given once";
  EXPECT_EQ(lower(under(evictor::driver, GiB), plan).steps[1].launch, launch_method::as_operator)
      << "the driver may evict";
}

TEST_F(managed_lowering, movements_leave_managed_addresses_as_they_were) {
  const problem p = under(evictor::driver, GiB);
  memory_plan plan = in_order(g, residence::managed);
  const placement before(p, plan, packers::searched);
  for (int i = 0; i < 3; ++i) plan.actions.insert(plan.actions.begin() + 2, prefetch{named(g, "y0"), {}});
  plan.actions.insert(plan.actions.begin() + 6, evict{named(g, "x"), batch_part(8, 0, 2)});
  const placement after(p, plan, packers::searched);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    EXPECT_EQ(before.managed.offset_of(t), after.managed.offset_of(t));
  }
}

TEST_F(managed_lowering, without_evictions_pressure_by_plan_is_infeasible_below_the_arena) {
  EXPECT_NO_THROW(lower(under(evictor::plan, 48 * MiB), in_order(g, residence::managed)));
  EXPECT_THROW(lower(under(evictor::plan, 40 * MiB), in_order(g, residence::managed)), infeasible);
  EXPECT_NO_THROW(lower(under(evictor::driver, 40 * MiB), in_order(g, residence::managed)))
      << "the driver evicts";
}

TEST_F(managed_lowering, what_becomes_resident_waits_for_the_eviction_before_it) {
  memory_plan plan = in_order(g, residence::managed);
  plan.actions.insert(plan.actions.begin() + 1, evict{named(g, "x"), {}});
  plan.actions.emplace_back(evict{named(g, "dy"), {}});
  const execution_plan roomy = lower(under(evictor::plan, 48 * MiB), plan);
  for (const step& s : roomy.steps) {
    if (s.in_lane != lane::compute) continue;
    EXPECT_EQ(s.waits_for[on_to_host], no_step) << to_text(g, s.command) << ": all fit at once";
  }
  const execution_plan e = lower(under(evictor::plan, 40 * MiB), plan);
  EXPECT_EQ(e.steps[1].in_lane, lane::to_host);
  EXPECT_EQ(e.steps[1].waits_for[on_compute], 0);
  EXPECT_EQ(e.steps[2].waits_for[on_to_host], no_step) << "y1 is resident since the last iteration";
  EXPECT_EQ(e.steps[4].waits_for[on_to_host], 1) << "back2 brings dy in: the budget must have room";
  EXPECT_EQ(e.peak_device_bytes, 40 * MiB);
}

TEST_F(managed_lowering, a_twinned_tensor_leaves_by_a_copy_and_comes_back_to_its_address) {
  memory_plan plan = in_order(g, residence::managed);
  const tensor_id y0 = named(g, "y0");
  plan.residences[y0] = residence::twinned;
  plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});
  plan.actions.insert(plan.actions.end() - 1, prefetch{y0, {}});
  const execution_plan e = lower(under(evictor::none, GiB), plan);
  const step &out = e.steps[2], &back = e.steps[6];
  ASSERT_EQ(out.managed_targets.size(), 1U);
  ASSERT_EQ(out.populate_or_discard.size(), 1U);
  EXPECT_EQ(out.managed_targets[0].device_range, out.populate_or_discard[0]);
  EXPECT_EQ(out.managed_targets[0].device_range.offset, e.steps[0].operands[1].location.offset);
  EXPECT_EQ(back.managed_targets[0].device_range, out.managed_targets[0].device_range);
  EXPECT_EQ(back.managed_targets[0].pinned_offset, out.managed_targets[0].pinned_offset);
  EXPECT_EQ(back.populate_or_discard, out.populate_or_discard);
  EXPECT_EQ(back.waits_for[on_to_host], 2);
  EXPECT_EQ(e.steps[7].waits_for[static_cast<std::size_t>(lane::to_device)], 6);
  EXPECT_EQ(e.pinned_arena_bytes, 8 * MiB);
}

TEST_F(managed_lowering, only_what_leaves_has_a_twin) {
  memory_plan plan = in_order(g, residence::managed);
  const tensor_id y0 = named(g, "y0");
  plan.residences[y0] = plan.residences[named(g, "y1")] = plan.residences[named(g, "y2")] =
      residence::twinned;
  plan.actions.insert(plan.actions.begin() + 2, evict{y0, {}});
  plan.actions.insert(plan.actions.end() - 1, prefetch{y0, {}});
  plan.actions.emplace_back(discard{named(g, "y2"), {}});
  EXPECT_EQ(lower(under(evictor::none, GiB), plan).pinned_arena_bytes, 8 * MiB);
}

// Parts that leave hold up nobody but themselves.
TEST_F(managed_lowering, a_part_comes_in_while_another_of_its_tensor_leaves) {
  for (const residence home : {residence::managed, residence::twinned}) {
    const tensor_id y0 = named(g, "y0");
    const box first = batch_part(8, 0, 2), second = batch_part(8, 1, 2);
    memory_plan plan = in_order(g, residence::managed);
    plan.residences[y0] = home;
    // relu0 in halves: the first leaves while the second gets its room.
    plan.actions[0] = compute{0, first};
    const std::array<action, 5> more{evict{y0, first}, prefetch{y0, second}, compute{0, second},
                                     prefetch{y0, first}, prefetch{y0, second}};
    plan.actions.insert(plan.actions.begin() + 1, more.begin(), more.end());
    const execution_plan e = lower(under(evictor::none, GiB), plan);
    EXPECT_EQ(e.steps[1].in_lane, lane::to_host);
    EXPECT_EQ(e.steps[2].waits_for[on_to_host], no_step);
    EXPECT_EQ(e.steps[4].waits_for[on_to_host], 1) << "the half that left";
  }
}

TEST_F(managed_lowering, a_twinned_tensor_takes_no_room_from_a_living_one) {
  memory_plan plan = in_order(g, residence::managed);
  const placement where(under(evictor::none, GiB), plan, packers::searched);
  // Some tensor of the backward pass lies where y2 did.
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (g.tensors[t].role != role::activation_gradient ||
        where.managed.offset_of(t) != where.managed.offset_of(named(g, "y2")))
      continue;
    plan.residences[t] = residence::twinned;
    plan.actions.insert(plan.actions.begin() + 3, prefetch{t, {}});
    EXPECT_THROW(lower(under(evictor::none, GiB), plan), std::invalid_argument);
    return;
  }
  GTEST_SKIP() << "no tensor of the backward pass took y2's place";
}

TEST_F(managed_lowering, parts_of_a_twinned_tensor_are_whole_blocks) {
  memory_plan plan = in_order(g, residence::managed);
  plan.residences[named(g, "y0")] = residence::twinned;
  plan.actions.insert(plan.actions.begin() + 2, evict{named(g, "y1"), {}});
  plan.actions[2] = discard{named(g, "y0"), batch_part(8, 0, 8)};  // 1 MiB
  EXPECT_THROW(lower(under(evictor::none, GiB), plan), std::invalid_argument);
}

TEST_F(managed_lowering, a_dead_tensor_gives_up_only_what_nobody_took_over) {
  memory_plan plan = in_order(g, residence::managed);
  const problem p = under(evictor::none, GiB);
  // After the last action everything but x, dy and d0 is dead; y2's place may have been taken.
  for (tensor_id t = 0; t < g.tensors.size(); ++t) plan.actions.emplace_back(evict{t, {}});
  const execution_plan e = lower(p, plan);
  std::vector<int> given(e.managed_arena_bytes / managed_block, 0);
  for (const step& s : e.steps) {
    if (!std::holds_alternative<evict>(s.command)) continue;
    for (const managed_target& moved_part : s.managed_targets) {
      for (byte_count b = moved_part.device_range.offset / managed_block;
           b < (moved_part.device_range.offset + moved_part.device_range.bytes) / managed_block; ++b)
        ++given[b];
    }
  }
  for (const int times : given) EXPECT_EQ(times, 1) << "every block has one owner";
}

TEST_F(managed_lowering, parts_of_a_tensor_tile_its_blocks) {
  memory_plan plan = in_order(g, residence::managed);
  for (std::uint32_t q = 0; q < 8; ++q) plan.actions.emplace_back(evict{named(g, "x"), batch_part(8, q, 8)});
  const execution_plan e = lower(under(evictor::none, GiB), plan);
  byte_count moved = 0;
  for (const step& s : e.steps) {
    for (const managed_target& moved_part : s.managed_targets) {
      EXPECT_EQ(moved_part.device_range.offset % managed_block, 0U);
      moved += moved_part.device_range.bytes;
    }
  }
  EXPECT_EQ(moved, 8 * MiB);
}

}  // namespace
