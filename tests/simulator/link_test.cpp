// How two transfers in opposite directions share the link.
#include <gtest/gtest.h>

#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

struct duel {
  hand_plan plan;
  tensor_id in, out;

  // Both start at once: `in_blocks` towards the device, `out_blocks` towards the host.
  duel(std::int64_t in_blocks, std::int64_t out_blocks, residence home_in, residence home_out) {
    const auto place = [](residence home, std::uint64_t block) {
      return home == residence::managed ? managed_at(block) : address{space::device, 0};
    };
    in = plan.add_tensor(in_blocks, home_in, place(home_in, 0), role::input);
    out = plan.add_tensor(out_blocks, home_out, place(home_out, static_cast<std::uint64_t>(in_blocks)));
    plan.add_move(prefetch{in, {}}, in);
    plan.add_move(evict{out, {}}, out);
  }
};

nanoseconds end_of(const trace& t, lane where) {
  for (const span& s : t.spans) {
    if (s.in_lane == where) return s.end;
  }
  return -1;
}

TEST(link, copies_both_ways_at_once_share_it) {
  duel d(20, 20, residence::staged, residence::staged);
  d.plan.on.link_both_bytes_per_s = blocks_per_ms(15);
  const trace t = d.plan.simulate(1, true).front();
  const nanoseconds expected = 40 * ms / 15;
  EXPECT_NEAR(static_cast<double>(t.duration), static_cast<double>(expected), 2.0);
}

TEST(link, the_copy_that_is_left_alone_speeds_up_again) {
  duel d(10, 20, residence::staged, residence::staged);  // alone 1 and 2 ms, at half speed together
  const trace t = d.plan.simulate(1, true).front();
  EXPECT_EQ(end_of(t, lane::to_device), 2 * ms);
  EXPECT_EQ(end_of(t, lane::to_host), 3 * ms);
  EXPECT_EQ(t.duration, 3 * ms);
}

TEST(link, a_full_duplex_link_slows_nobody) {
  duel d(10, 20, residence::staged, residence::staged);
  d.plan.on.link_both_bytes_per_s = blocks_per_ms(20);
  EXPECT_EQ(d.plan.simulate(1).front().duration, 2 * ms);
}

TEST(link, a_slow_transfer_leaves_the_rest_to_the_fast_one) {
  // Three calls that move 10 blocks in 2.05 ms leave 12 - 10 / 2.05 blocks/ms for a copy that could use 10.
  hand_plan h;
  h.on.link_both_bytes_per_s = blocks_per_ms(12);
  h.on.uvm.prefetch_to_host_call_ns = 350'000;
  const tensor_id x = h.add_tensor(7, residence::staged, {space::device, 0});
  const tensor_id y = h.add_tensor(10, residence::managed, managed_at(0));
  const std::int32_t written = h.add_compute(ms, {h.whole(y, access_mode::write)});
  h.add_move(evict{y, {}}, y, {written});
  h.add_move(prefetch{x, {}}, x, {written});
  const trace t = h.simulate(1, true).front();
  const double blocks_left_per_ms = 12.0 - 10 / 2.05;
  EXPECT_NEAR(static_cast<double>(end_of(t, lane::to_device) - ms), 7 / blocks_left_per_ms * ms, 2000.0);
  EXPECT_EQ(end_of(t, lane::to_host), ms + 2'050'000);
}

TEST(link, a_prefetch_to_the_host_gives_way_to_one_to_the_device) {
  duel d(10, 10, residence::managed, residence::managed);
  d.plan.add_compute(ms, {d.plan.whole(d.out, access_mode::write)});
  std::swap(d.plan.plan.steps[0], d.plan.plan.steps[2]);  // written, then both at once
  for (const std::size_t i : {1U, 2U}) d.plan.plan.steps[i].waits_for[0] = 0;
  d.plan.on.link_both_bytes_per_s = blocks_per_ms(20);
  const nanoseconds wait = ms / 3 / 2;  // for the first of the three calls that evict
  EXPECT_EQ(d.plan.simulate(1).front().duration, 2 * ms + wait);
  d.plan.on.uvm.prefetch_to_host_beside_percent = 20;
  const trace t = d.plan.simulate(1, true).front();
  EXPECT_EQ(end_of(t, lane::to_device), 2 * ms + wait);
  EXPECT_NEAR(static_cast<double>(end_of(t, lane::to_host)), static_cast<double>(2 * ms + ms * 8 / 10),
              1.0 * ms / 100);
}

// A kernel that waits for faults all the time, and one that does for half of it.
TEST(link, a_prefetch_to_the_host_and_faults_slow_each_other_down) {
  for (const nanoseconds computing : {nanoseconds{0}, 2 * ms}) {
    hand_plan h;
    h.on.uvm.service_ns = ms;
    const tensor_id out = h.add_tensor(10, residence::managed, managed_at(0));
    const tensor_id in = h.add_tensor(2, residence::managed, managed_at(10));
    const std::int32_t written = h.add_compute(0, {h.whole(out, access_mode::write)});
    h.add_move(evict{out, {}}, out, {written});
    h.add_compute(computing, {h.whole(in, access_mode::write)}, {written});
    const trace apart = h.simulate(1, true).front();
    const nanoseconds start = end_of(apart, lane::compute);
    const nanoseconds evicting = end_of(apart, lane::to_host) - start;
    const nanoseconds kernel = apart.duration - start;
    ASSERT_LT(evicting, kernel);
    h.on.uvm.prefetch_to_host_beside_faults_percent = 50;
    h.on.uvm.faults_beside_prefetch_percent = 80;
    const trace beside = h.simulate(1, true).front();
    const double share = static_cast<double>(kernel - computing) / static_cast<double>(kernel);
    const double slowed = static_cast<double>(evicting) / (1 - 0.5 * share);
    EXPECT_NEAR(static_cast<double>(end_of(beside, lane::to_host) - start) / slowed, 1, 0.01);
    const double lost = slowed * (1 - 1 / (1 + share * 0.25));
    EXPECT_NEAR(static_cast<double>(beside.duration - start), static_cast<double>(kernel) + lost, 0.01 * ms);
  }
}

TEST(link, transfers_that_do_not_meet_keep_their_speed) {
  hand_plan h;
  const tensor_id x = h.add_tensor(10, residence::staged, {space::device, 0});
  const std::int32_t in = h.add_move(prefetch{x, {}}, x);
  const std::int32_t use = h.add_compute(1 * ms, {}, {in});
  h.add_move(evict{x, {}}, x, {use});
  EXPECT_EQ(h.simulate(1).front().duration, 3 * ms);
}

TEST(link, a_machine_without_a_rate_for_both_ways_is_refused_only_where_it_matters) {
  duel d(1, 1, residence::staged, residence::staged);
  d.plan.on.link_both_bytes_per_s = 0;
  EXPECT_THROW(d.plan.simulate(1), std::invalid_argument);
  hand_plan h;
  h.on.link_both_bytes_per_s = 0;
  const tensor_id x = h.add_tensor(1, residence::staged, {space::device, 0});
  h.add_move(prefetch{x, {}}, x);
  EXPECT_NO_THROW(h.simulate(1));
}

}  // namespace
}  // namespace um
