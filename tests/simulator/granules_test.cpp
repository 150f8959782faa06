#include "simulator/granules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "simulator/kernel_touches.hpp"
#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

// Services until a block is whole, k granules arriving at a time in that order.
int services(std::vector<unsigned> order, std::size_t k) {
  granule_set resident = 0;
  int n = 0;
  while (resident != all_granules) {
    granule_set asked = 0;
    for (const unsigned g : order) {
      const granule_set one = granule_set{1} << g;
      if ((resident & one) == 0 && count(asked) < k) asked |= one;
    }
    resident |= with_prefetched_granules(resident, asked);
    ++n;
  }
  return n;
}

std::vector<unsigned> ascending() {
  std::vector<unsigned> all(granules_per_block);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

TEST(granules, a_cold_block_touched_in_order_takes_six_services) {
  std::vector<unsigned> order = ascending();
  EXPECT_EQ(services(order, 1), 6);
  std::ranges::reverse(order);
  EXPECT_EQ(services(order, 1), 6);
}

TEST(granules, more_granules_a_batch_need_fewer_services) {
  const std::vector<std::pair<std::size_t, int>> known{{2, 5}, {3, 4}, {4, 4}, {8, 3}, {16, 2}, {17, 1}};
  for (const auto& [k, n] : known) EXPECT_EQ(services(ascending(), k), n) << k;
}

TEST(granules, random_order_takes_about_fourteen_services) {
  std::mt19937 random(7);
  std::vector<unsigned> order = ascending();
  int sum = 0;
  for (int i = 0; i < 2000; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    const int n = services(order, 1);
    EXPECT_GE(n, 6);
    EXPECT_LE(n, 17);
    sum += n;
  }
  EXPECT_NEAR(sum / 2000.0, 13.7, 0.2);
}

TEST(granules, half_a_tree_is_not_enough) {
  EXPECT_EQ(with_prefetched_granules(0b01, 0b100), 0b100U);
  EXPECT_EQ(with_prefetched_granules(0b01, 0b010), 0b011U);
  EXPECT_EQ(with_prefetched_granules(0b0011, 0b0100), 0b1111U);
  EXPECT_EQ(with_prefetched_granules(0x0000FFFF, 1U << 31), 0xFFFFFFFFU);
  EXPECT_EQ(with_prefetched_granules(0x00007FFF, 1U << 31), 1U << 31);
}

TEST(granules, sets) {
  EXPECT_EQ(runs_in(0), 0U);
  EXPECT_EQ(runs_in(0b1011'0001), 3U);
  EXPECT_EQ(runs_in(all_granules), 1U);
  EXPECT_EQ(first_granules_of(0b1011'0000, 2), 0b0011'0000U);
  EXPECT_EQ(first_granules_of(0b1, 5), 0b1U);
  EXPECT_EQ(granules_between(0, 32), all_granules);
  EXPECT_EQ(granules_between(3, 5), 0b11000U);
  EXPECT_EQ(granules_between(5, 5), 0U);
}

// In which order operators go through their operands.

// One operator over managed tensors that lie one behind the other.
struct one_operator {
  hand_plan h;
  std::uint64_t next = 0;
  touch_orders order = touch_orders::by_grid;

  one_operator() { h.on.multiprocessors = 1; }  // a wave is one block

  tensor_id add(std::int64_t blocks_long, role use = role::input) {
    const tensor_id t = h.add_tensor(blocks_long, residence::managed, managed_at(next), use);
    next += static_cast<std::uint64_t>(blocks_long);
    return t;
  }

  void compute(op_attributes what, std::vector<tensor_id> in, std::vector<tensor_id> out) {
    std::vector<operand> operands;
    for (const tensor_id t : in) operands.push_back(h.whole(t, reads));
    for (const tensor_id t : out) operands.push_back(h.whole(t, writes));
    h.add_compute(ms, operands);
    h.network.ops.back().attributes = what;
    h.network.ops.back().in = std::move(in);
    h.network.ops.back().out = std::move(out);
  }

  // What the second execution of the operator makes the driver do within that many blocks.
  managed_traffic under(std::uint64_t capacity) {
    h.plan.evicted_by = evictor::driver;
    h.plan.budget = capacity * managed_block;
    simulation_input run = h.run();
    run.order = order;
    managed_memory memory = managed_at_start(run);
    touch_operands(run, h.plan.steps.front(), memory);
    return touch_operands(run, h.plan.steps.front(), memory);
  }
};

TEST(kernel_touches, what_fits_is_touched_without_a_word) {
  one_operator o;
  o.compute(relu{}, {o.add(5)}, {o.add(5)});
  EXPECT_EQ(o.under(10), managed_traffic{});
}

TEST(kernel_touches, input_and_output_stream_side_by_side) {
  one_operator o;
  o.compute(relu{}, {o.add(6)}, {o.add(6)});
  const managed_traffic t = o.under(4);
  EXPECT_EQ(t.fault_bytes, 12 * managed_block);
  EXPECT_EQ(t.evicted_bytes, 12 * managed_block);
  // After the last wave the ends of both are resident, not the output alone.
  managed_memory memory = managed_at_start(o.h.run());
  touch_operands(o.h.run(), o.h.plan.steps.front(), memory);
  EXPECT_NE(memory.state(5).on_device, 0U);
  EXPECT_NE(memory.state(11).on_device, 0U);
  EXPECT_EQ(memory.state(6).on_device, 0U);
}

TEST(kernel_touches, a_filter_that_was_displaced_comes_back_for_the_next_wave) {
  one_operator o;
  const tensor_id x = o.add(8), w = o.add(1), y = o.add(8);
  o.compute(convolution{}, {x, w}, {y});
  const managed_traffic ample = o.under(17), tight = o.under(4);
  EXPECT_EQ(ample.fault_bytes, 0U);
  // 16 blocks stream through the 4; the filter, never refreshed, goes again and again.
  EXPECT_GT(tight.fault_bytes, 17 * managed_block);
  EXPECT_LE(tight.fault_bytes, 24 * managed_block);
}

TEST(kernel_touches, batch_normalisation_reads_its_input_twice) {
  one_operator o;
  const tensor_id x = o.add(8), y = o.add(8);
  o.compute(batch_norm{}, {x}, {y});
  o.order = touch_orders::by_address;
  EXPECT_EQ(o.under(4).fault_bytes, 24 * managed_block);
  o.order = touch_orders::hits_first;
  EXPECT_LT(o.under(4).fault_bytes, 24 * managed_block);
}

TEST(kernel_touches, a_fully_connected_layer_streams_its_larger_matrix) {
  one_operator o;
  const tensor_id x = o.add(1), w = o.add(9), y = o.add(1);
  o.compute(linear{}, {x, w}, {y});
  const std::vector<touch_phase> p = phases_of(o.h.network, o.h.network.ops[0]);
  EXPECT_EQ(p, (std::vector{touch_phase::every_wave, touch_phase::streamed, touch_phase::after_waves}));
  one_operator tall;
  tall.compute(linear{}, {tall.add(9), tall.add(1)}, {tall.add(9)});
  EXPECT_EQ(phases_of(tall.h.network, tall.h.network.ops[0]),
            (std::vector{touch_phase::streamed, touch_phase::every_wave, touch_phase::streamed}));
}

TEST(kernel_touches, gradients_of_weights_are_written_last_or_streamed) {
  one_operator o;
  o.compute(linear_backward_filter{}, {o.add(1), o.add(1)}, {o.add(9), o.add(1)});
  EXPECT_EQ(phases_of(o.h.network, o.h.network.ops[0]),
            (std::vector{touch_phase::every_wave, touch_phase::every_wave, touch_phase::streamed,
                         touch_phase::after_waves}));
  one_operator c;
  c.compute(convolution_backward_filter{}, {c.add(4), c.add(4)}, {c.add(1)});
  EXPECT_EQ(phases_of(c.h.network, c.h.network.ops[0]),
            (std::vector{touch_phase::streamed, touch_phase::streamed, touch_phase::after_waves}));
}

TEST(kernel_touches, every_wave_reads_anew_what_lies_over_the_link) {
  one_operator o;
  const tensor_id x = o.add(8), w = o.add(1), y = o.add(8);
  o.compute(convolution{}, {x, w}, {y});
  managed_memory memory = managed_at_start(o.h.run());
  memory.advise(blocks(8, 1), advice::accessed_by_device);
  EXPECT_EQ(touch_operands(o.h.run(), o.h.plan.steps.front(), memory).remote_bytes, 8 * managed_block);
}

TEST(kernel_touches, a_block_over_costs_everything_in_turn_and_a_block_if_hits_go_first) {
  one_operator o;
  o.compute(bias_backward{}, {o.add(12)}, {o.add(1)});
  EXPECT_EQ(o.under(12).fault_bytes, managed_block) << "each block of the grid has channels of its own";
  o.order = touch_orders::by_address;
  EXPECT_EQ(o.under(12).fault_bytes, 13 * managed_block);
  o.order = touch_orders::hits_first;
  EXPECT_EQ(o.under(12).fault_bytes, managed_block);
}

TEST(kernel_touches, waves_cover_every_byte_once) {
  const std::vector<std::vector<range>> cases{
      {{100, 5 * managed_block}}, {{managed_block, 3}}, {{0, 10}, {1000, 20}, {5000, 7 * managed_block + 1}}};
  for (const auto& runs : cases) {
    for (const std::uint64_t n : {1U, 2U, 3U, 7U, 40U}) {
      std::vector<range> joined;
      for (std::uint64_t i = 0; i < n; ++i) {
        for (const range& r : wave_of(runs, i, n)) {
          if (!joined.empty() && joined.back().offset + joined.back().bytes == r.offset) {
            joined.back().bytes += r.bytes;
          } else {
            joined.push_back(r);
          }
        }
      }
      EXPECT_EQ(joined, runs) << n;
    }
  }
}

TEST(kernel_touches, one_run_is_cut_between_blocks) {
  for (std::uint64_t i = 1; i < 3; ++i) {
    for (const range& r : wave_of({{100, 7 * managed_block}}, i, 3)) EXPECT_EQ(r.offset % managed_block, 0U);
  }
}

TEST(kernel_touches, a_wave_is_what_the_resident_threads_hold) {
  machine m = round_machine();
  m.multiprocessors = 132;
  EXPECT_EQ(wave_bytes(m), 6 * MiB);
}

}  // namespace
}  // namespace um
