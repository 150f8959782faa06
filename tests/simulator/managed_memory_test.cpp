// The driver's rules at block level, one test a rule.
#include "simulator/managed_memory.hpp"

#include <gtest/gtest.h>

#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

constexpr auto reads = access_mode::read;
constexpr auto writes = access_mode::write;

managed_memory on_host(std::uint64_t blocks_in_arena, std::uint64_t capacity) {
  managed_memory m(blocks_in_arena * managed_block, capacity);
  m.place_on_host(blocks(0, blocks_in_arena));
  return m;
}

byte_count bytes(std::uint64_t count) {
  return count * managed_block;
}

std::vector<std::uint64_t> resident(const managed_memory& m) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t b = 0; b < m.block_count(); ++b) {
    if (m.state(b).on_device) all.push_back(b);
  }
  return all;
}

using ids = std::vector<std::uint64_t>;

TEST(managed_memory, a_set_that_fits_moves_in_once_and_never_out) {
  managed_memory m = on_host(8, 8);
  const managed_traffic first = m.touch(blocks(0, 8), reads);
  EXPECT_EQ(first.faulted_blocks, 8U);
  EXPECT_EQ(first.first_fault_bytes, bytes(8));
  EXPECT_EQ(m.touch(blocks(0, 8), writes), managed_traffic{});
}

TEST(managed_memory, the_first_sweep_over_capacity_moves_w_in_and_w_minus_c_out) {
  managed_memory m = on_host(10, 6);
  const managed_traffic t = m.touch(blocks(0, 10), reads);
  EXPECT_EQ(t.first_fault_bytes, bytes(10));
  EXPECT_EQ(t.evicted_bytes, bytes(4));
}

TEST(managed_memory, a_cyclic_sweep_one_block_over_capacity_always_misses_also_when_only_read) {
  for (const std::uint64_t capacity : {1U, 7U, 31U}) {
    const std::uint64_t set = capacity + 1;
    managed_memory m = on_host(set, capacity);
    m.touch(blocks(0, set), reads);
    for (int sweep = 0; sweep < 3; ++sweep) {
      const managed_traffic t = m.touch(blocks(0, set), reads);
      EXPECT_EQ(t.faulted_blocks, set);
      EXPECT_EQ(t.fault_bytes, bytes(set));
      EXPECT_EQ(t.first_fault_bytes, 0U);
      EXPECT_EQ(t.evicted_bytes, bytes(set));
      EXPECT_EQ(t.evicted_blocks, set);
    }
  }
}

TEST(managed_memory, hits_do_not_refresh_a_block) {
  managed_memory m = on_host(4, 3);
  m.touch(blocks(0, 3), reads);
  m.touch(blocks(0, 1), reads);
  m.touch(blocks(0, 1), writes);
  m.touch(blocks(3, 1), reads);
  EXPECT_EQ(resident(m), (ids{1, 2, 3}));
}

TEST(managed_memory, prefetching_resident_data_again_protects_it) {
  managed_memory m = on_host(4, 3);
  m.touch(blocks(0, 3), reads);
  const managed_traffic t = m.prefetch_to_device(blocks(0, 1));
  EXPECT_EQ(t.prefetched_in_bytes, 0U);
  m.touch(blocks(3, 1), reads);
  EXPECT_EQ(resident(m), (ids{0, 2, 3}));
}

TEST(managed_memory, a_prefetch_over_capacity_walks_twice) {
  managed_memory m = on_host(10, 6);
  const managed_traffic t = m.prefetch_to_device(blocks(0, 10));
  EXPECT_EQ(t.prefetched_in_bytes, bytes(20));
  EXPECT_EQ(t.evicted_bytes, bytes(14));
  EXPECT_EQ(t.faulted_blocks, 0U);
  EXPECT_EQ(resident(m), (ids{4, 5, 6, 7, 8, 9}));
}

TEST(managed_memory, a_prefetch_that_fits_moves_each_block_once) {
  managed_memory m = on_host(6, 6);
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 6)).prefetched_in_bytes, bytes(6));
  EXPECT_EQ(m.touch(blocks(0, 6), writes), managed_traffic{});
}

TEST(managed_memory, discarded_blocks_leave_first_with_nothing_copied) {
  managed_memory m = on_host(6, 4);
  m.touch(blocks(0, 4), writes);
  EXPECT_EQ(m.discard(blocks(2, 2)).discarded_blocks, 2U);
  EXPECT_EQ(m.held_blocks(), 4U) << "a discard returns no memory";
  const managed_traffic t = m.touch(blocks(4, 2), reads);
  EXPECT_EQ(t.evicted_bytes, 0U);
  EXPECT_EQ(t.evicted_blocks, 0U);
  EXPECT_EQ(resident(m), (ids{0, 1, 4, 5}));
}

TEST(managed_memory, a_discard_followed_by_a_prefetch_costs_no_copy_and_no_fault) {
  managed_memory m = on_host(2, 2);
  m.touch(blocks(0, 2), writes);
  m.discard(blocks(0, 2));
  const managed_traffic t = m.prefetch_to_device(blocks(0, 2));
  EXPECT_EQ(t.prefetched_in_bytes, 0U);
  EXPECT_EQ(t.zeroed_bytes, bytes(2));
  EXPECT_EQ(m.touch(blocks(0, 2), writes), managed_traffic{});
}

TEST(managed_memory, writing_discarded_data_without_a_prefetch_is_told_apart) {
  managed_memory m = on_host(3, 2);
  m.touch(blocks(0, 2), writes);
  m.discard(blocks(0, 1));
  const managed_traffic t = m.touch(blocks(0, 1), writes);
  EXPECT_EQ(t.rewritten_bytes, bytes(1));
  EXPECT_EQ(t.faulted_blocks, 1U);
  EXPECT_FALSE(m.state(0).discarded);
  // The driver leaves it on its list of discarded blocks: out first, but with its value.
  const managed_traffic next = m.touch(blocks(2, 1), reads);
  EXPECT_EQ(next.evicted_bytes, bytes(1));
  EXPECT_EQ(resident(m), (ids{1, 2}));
}

TEST(managed_memory, a_partly_discarded_block_keeps_its_value) {
  managed_memory m = on_host(3, 3);
  m.touch(blocks(0, 3), writes);
  const managed_traffic t = m.discard({managed_block / 2, 2 * managed_block});
  EXPECT_EQ(t.discarded_blocks, 1U);
  EXPECT_EQ(resident(m), (ids{0, 2}));
}

TEST(managed_memory, read_mostly_data_leaves_without_a_copy_and_comes_back_by_one) {
  managed_memory m = on_host(4, 2);
  m.advise(blocks(0, 4), advice::read_mostly);
  m.touch(blocks(0, 4), reads);
  const managed_traffic t = m.touch(blocks(0, 4), reads);
  EXPECT_EQ(t.fault_bytes, bytes(4));
  EXPECT_EQ(t.evicted_blocks, 4U);
  EXPECT_EQ(t.evicted_bytes, 0U);
}

TEST(managed_memory, writing_read_mostly_data_drops_the_host_copy) {
  managed_memory m = on_host(2, 1);
  m.advise(blocks(0, 2), advice::read_mostly);
  m.touch(blocks(0, 1), reads);
  const managed_traffic t = m.touch(blocks(0, 1), writes);
  EXPECT_EQ(t.faulted_blocks, 1U);
  EXPECT_EQ(t.upgraded_blocks, 1U);
  EXPECT_EQ(t.fault_bytes + t.first_fault_bytes, 0U);
  EXPECT_EQ(m.touch(blocks(1, 1), reads).evicted_bytes, bytes(1));
}

TEST(managed_memory, read_mostly_data_prefetched_to_the_host_stays_on_the_device_too) {
  managed_memory m = on_host(1, 1);
  m.advise(blocks(0, 1), advice::read_mostly);
  m.touch(blocks(0, 1), reads);
  EXPECT_EQ(m.prefetch_to_host(blocks(0, 1)).prefetched_out_bytes, 0U);
  EXPECT_EQ(m.touch(blocks(0, 1), reads), managed_traffic{});
}

TEST(managed_memory, data_preferred_on_the_host_is_read_over_the_link_and_never_moves) {
  managed_memory m = on_host(2, 2);
  m.advise(blocks(0, 2), advice::preferred_host);
  const range part{managed_block / 4, managed_block};
  for (int i = 0; i < 2; ++i) {
    const managed_traffic t = m.touch(part, reads);
    EXPECT_EQ(t.zero_copy_bytes, managed_block) << "the bytes touched, every time";
    EXPECT_EQ(t.faulted_blocks, 0U);
  }
  EXPECT_EQ(m.touch(part, access_mode::accumulate).zero_copy_bytes, 2 * managed_block);
  EXPECT_EQ(m.held_blocks(), 0U);
}

TEST(managed_memory, one_eviction_turns_accessed_by_data_remote_until_it_is_prefetched) {
  managed_memory m(bytes(3), 2);
  m.advise(blocks(0, 1), advice::accessed_by_device);
  EXPECT_EQ(m.touch(blocks(0, 1), writes).populated_bytes, bytes(1));
  m.touch(blocks(1, 2), writes);
  EXPECT_FALSE(m.state(0).on_device);
  EXPECT_EQ(m.touch(blocks(0, 1), reads).zero_copy_bytes, bytes(1));
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 1)).prefetched_in_bytes, bytes(1));
  EXPECT_EQ(m.touch(blocks(0, 1), reads), managed_traffic{});
}

TEST(managed_memory, a_preferred_device_outranks_accessed_by_and_protects_nothing) {
  managed_memory m = on_host(3, 2);
  m.advise(blocks(0, 3), advice::accessed_by_device);
  m.advise(blocks(0, 3), advice::preferred_device);
  const managed_traffic t = m.touch(blocks(0, 3), reads);
  EXPECT_EQ(t.first_fault_bytes, bytes(3));
  EXPECT_EQ(t.evicted_bytes, bytes(1));
}

TEST(managed_memory, data_resident_nowhere_appears_without_a_copy_but_leaves_with_one) {
  managed_memory m(bytes(2), 1);
  EXPECT_EQ(m.touch(blocks(0, 1), writes).populated_bytes, bytes(1));
  EXPECT_EQ(m.touch(blocks(1, 1), writes).evicted_bytes, bytes(1));
  EXPECT_EQ(m.touch(blocks(0, 1), reads).fault_bytes, bytes(1)) << "the GPU has visited it before";
}

TEST(managed_memory, prefetching_to_the_host_frees_the_place_without_an_eviction) {
  managed_memory m = on_host(4, 2);
  m.touch(blocks(0, 2), reads);
  EXPECT_EQ(m.prefetch_to_host(blocks(0, 2)).prefetched_out_bytes, bytes(2));
  EXPECT_EQ(m.prefetch_to_host(blocks(0, 2)).prefetched_out_bytes, 0U);
  const managed_traffic t = m.touch(blocks(2, 2), reads);
  EXPECT_EQ(t.evicted_blocks, 0U);
}

TEST(managed_memory, a_range_beyond_the_arena_is_refused) {
  managed_memory m(bytes(2), 2);
  EXPECT_THROW(m.touch(blocks(1, 2), reads), std::out_of_range);
  EXPECT_THROW(m.discard(blocks(3, 1)), std::out_of_range);
  EXPECT_THROW(m.touch({managed_block, ~byte_count{0}}, reads), std::out_of_range);
  EXPECT_THROW(managed_memory(bytes(2), 0), std::invalid_argument);
}

TEST(managed_memory, touching_nothing_does_nothing) {
  managed_memory m(bytes(2), 2);
  EXPECT_EQ(m.touch({managed_block, 0}, writes), managed_traffic{});
  EXPECT_EQ(m.prefetch_to_device({0, 0}), managed_traffic{});
  EXPECT_EQ(m.discard({5, 0}), managed_traffic{});
}

TEST(managed_memory, copies_are_independent) {
  managed_memory a = on_host(2, 1);
  managed_memory b = a;
  a.touch(blocks(0, 1), reads);
  EXPECT_EQ(b.held_blocks(), 0U);
  EXPECT_EQ(b.touch(blocks(0, 2), reads).evicted_bytes, bytes(1));
}

}  // namespace
}  // namespace um
