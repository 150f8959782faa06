// Tests the rules of the driver that the model of single pages (managed_model_test.cpp) lacks, some important
// rules that it has, and the times of operations.
#include "simulator/managed_memory.hpp"

#include <gtest/gtest.h>

#include "tests/simulator/fixtures.hpp"

namespace um {
namespace {

managed_memory arena(std::uint64_t blocks_in_arena, std::uint64_t capacity,
                     const machine& on = round_machine()) {
  return {blocks_in_arena * managed_block, capacity, on};
}

managed_memory on_host(std::uint64_t blocks_in_arena, std::uint64_t capacity,
                       const machine& on = round_machine()) {
  managed_memory m = arena(blocks_in_arena, capacity, on);
  m.place_on_host(blocks(0, blocks_in_arena));
  return m;
}

byte_count bytes(std::uint64_t count) {
  return count * managed_block;
}

range granules(std::uint64_t first, std::uint64_t count) {
  return {first * granule_bytes, count * granule_bytes};
}

machine one_granule_a_batch() {
  machine m = round_machine();
  m.uvm.batch_granules = 1;
  return m;
}

using ids = std::vector<std::uint64_t>;

ids resident(const managed_memory& m) {
  ids all;
  for (std::uint64_t b = 0; b < m.block_count(); ++b) {
    if (m.state(b).on_device != 0) all.push_back(b);
  }
  return all;
}

bool does_nothing(const managed_traffic& t) {
  return t == managed_traffic{};
}

// --- faults ---

TEST(driver_rules, a_sequential_cold_block_takes_six_services) {
  managed_memory m = on_host(1, 1, one_granule_a_batch());
  const managed_traffic t = m.touch(blocks(0, 1), reads);
  EXPECT_EQ(t.services, 6U);
  EXPECT_EQ(t.batches, 6U);
  EXPECT_EQ(t.faulted_granules, 6U);
  EXPECT_EQ(t.fault_bytes, bytes(1));
}

TEST(driver_rules, every_second_granule_never_expands) {
  managed_memory m = on_host(1, 1, one_granule_a_batch());
  const managed_traffic t = m.touch(blocks(0, 1), reads, {.stride = 2});
  EXPECT_EQ(t.services, 16U);
  EXPECT_EQ(t.fault_bytes, 16 * granule_bytes);
  EXPECT_EQ(m.state(0).on_device, 0x55555555U);
}

TEST(driver_rules, a_stride_goes_on_across_blocks) {
  managed_memory m = on_host(3, 3, one_granule_a_batch());
  m.touch({granule_bytes, bytes(3) - granule_bytes}, reads, {.stride = 24});
  EXPECT_EQ(m.state(0).on_device, 1U << 1 | 1U << 25);
  EXPECT_EQ(m.state(1).on_device, 1U << 17);
  EXPECT_EQ(m.state(2).on_device, 1U << 9);
}

TEST(driver_rules, a_batch_holds_no_more_faults_than_the_driver_takes) {
  machine on = round_machine();
  on.uvm.batch_granules = 256;
  managed_memory m = on_host(40, 40, on);
  const managed_traffic t = m.touch(blocks(0, 40), reads, {.stride = 2});
  EXPECT_EQ(t.faulted_granules, 640U);
  EXPECT_EQ(t.batches, 3U);
}

// --- eviction ---

TEST(driver_rules, a_cyclic_sweep_one_block_over_capacity_always_misses_also_when_only_read) {
  for (const std::uint64_t capacity : {1U, 7U, 31U}) {
    const std::uint64_t set = capacity + 1;
    managed_memory m = on_host(set, capacity);
    m.touch(blocks(0, set), reads);
    for (int sweep = 0; sweep < 3; ++sweep) {
      const managed_traffic t = m.touch(blocks(0, set), reads);
      EXPECT_EQ(t.services, set);
      EXPECT_EQ(t.fault_bytes, bytes(set));
      EXPECT_EQ(t.evicted_bytes, bytes(set));
      EXPECT_EQ(t.evicted_blocks, set);
    }
  }
}

// --- prefetch ---

TEST(driver_rules, a_prefetch_over_capacity_moves_2w_in_and_2w_minus_c_out) {
  managed_memory m = on_host(10, 6);
  const managed_traffic t = m.prefetch_to_device(blocks(0, 10));
  EXPECT_EQ(t.prefetched_in_bytes, bytes(20));
  EXPECT_EQ(t.evicted_bytes, bytes(14));
  EXPECT_EQ(t.services, 0U);
  EXPECT_EQ(resident(m), (ids{4, 5, 6, 7, 8, 9}));
}

// --- discard ---

TEST(driver_rules, discarded_blocks_leave_first_with_nothing_copied) {
  managed_memory m = on_host(6, 4);
  m.touch(blocks(0, 4), writes);
  EXPECT_EQ(m.discard(blocks(2, 2)).discarded_blocks, 2U);
  EXPECT_EQ(m.held_blocks(), 4U) << "a discard returns no memory";
  const managed_traffic t = m.touch(blocks(4, 2), reads);
  EXPECT_EQ(t.evicted_bytes, 0U);
  EXPECT_EQ(t.evicted_blocks, 0U);
  EXPECT_EQ(resident(m), (ids{0, 1, 4, 5}));
}

TEST(driver_rules, writing_discarded_data_goes_page_by_page_and_leaves_the_block_an_early_victim) {
  machine on = round_machine();
  on.uvm.page_fault_ns = 10;
  managed_memory m = on_host(3, 2, on);
  m.touch(blocks(0, 2), writes);
  m.discard(blocks(0, 1));
  const managed_traffic t = m.touch(blocks(0, 1), writes);
  EXPECT_EQ(t.populated_bytes, bytes(1));
  EXPECT_GE(t.time, 512 * 10);
  EXPECT_EQ(m.state(0).discarded, 0U);
  const managed_traffic next = m.touch(blocks(2, 1), reads);
  EXPECT_EQ(next.evicted_bytes, bytes(1)) << "out first, but with its value";
  EXPECT_EQ(resident(m), (ids{1, 2}));
}

// --- advice ---

TEST(driver_rules, read_mostly_data_leaves_without_a_copy_and_comes_back_by_one) {
  managed_memory m = on_host(4, 2);
  m.advise(blocks(0, 4), advice::read_mostly);
  m.touch(blocks(0, 4), reads);
  const managed_traffic t = m.touch(blocks(0, 4), reads);
  EXPECT_EQ(t.fault_bytes, bytes(4));
  EXPECT_EQ(t.evicted_blocks, 4U);
  EXPECT_EQ(t.evicted_bytes, 0U);
}

TEST(driver_rules, writing_read_mostly_data_pays_for_every_page_on_every_pass) {
  machine on = round_machine();
  on.uvm.read_mostly_write_ns = 1000;
  managed_memory m = on_host(2, 2, on);
  m.advise(blocks(0, 2), advice::read_mostly);
  m.touch(blocks(0, 2), writes);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(m.touch(blocks(0, 2), writes).time, 2 * 512 * 1000);
  EXPECT_EQ(m.touch({0, page_bytes + 1}, writes).time, 2 * 1000) << "of the pages that are written";
  EXPECT_FALSE(m.would_hit(blocks(0, 1), writes));
  EXPECT_TRUE(m.would_hit(blocks(0, 1), reads));
}

TEST(driver_rules, data_preferred_on_the_host_is_read_over_the_link_and_never_moves) {
  managed_memory m = on_host(2, 2);
  m.advise(blocks(0, 2), advice::preferred_host);
  const range part{managed_block / 4, managed_block + 100};
  const managed_traffic first = m.touch(part, reads);
  EXPECT_EQ(first.remote_bytes, part.bytes) << "the bytes touched";
  EXPECT_EQ(first.services, 0U) << "the advice maps it";
  const managed_traffic again = m.touch(part, access_mode::accumulate);
  EXPECT_EQ(again.remote_bytes, 2 * part.bytes);
  EXPECT_EQ(again.services, 0U);
  EXPECT_EQ(m.held_blocks(), 0U);
}

TEST(driver_rules, one_eviction_turns_accessed_by_data_remote_until_it_is_prefetched) {
  managed_memory m = arena(3, 2);
  m.advise(blocks(0, 1), advice::accessed_by_device);
  EXPECT_EQ(m.touch(blocks(0, 1), writes).populated_bytes, bytes(1));
  m.touch(blocks(1, 2), writes);
  EXPECT_EQ(m.state(0).on_device, 0U);
  for (int i = 0; i < 3; ++i) {
    const managed_traffic t = m.touch(blocks(0, 1), reads);
    EXPECT_EQ(t.remote_bytes, bytes(1));
    EXPECT_EQ(t.services, 0U);
  }
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 1)).prefetched_in_bytes, bytes(1));
  EXPECT_TRUE(does_nothing(m.touch(blocks(0, 1), reads)));
}

TEST(driver_rules, access_counters_bring_remote_data_back_where_the_machine_has_them) {
  machine on = round_machine();
  on.uvm.access_counter_threshold = 1024;  // two sweeps of a granule
  managed_memory m = on_host(1, 1, on);
  m.advise(blocks(0, 1), advice::accessed_by_device);
  for (int pass = 0; pass < 2; ++pass) {
    const managed_traffic t = m.touch(blocks(0, 1), reads);
    EXPECT_EQ(t.fault_bytes, 0U);
    EXPECT_EQ(t.remote_bytes, bytes(1)) << "a kernel goes on over the link while counters fill";
  }
  const managed_traffic moving = m.touch(blocks(0, 1), reads);
  EXPECT_EQ(moving.fault_bytes, bytes(1));
  EXPECT_EQ(moving.remote_bytes, 0U);
  EXPECT_TRUE(does_nothing(m.touch(blocks(0, 1), reads)));
}

// --- the CPU ---

TEST(driver_rules, the_cpu_takes_back_a_granule_and_then_by_the_same_tree) {
  managed_memory m = on_host(1, 1);
  m.touch(blocks(0, 1), reads);
  EXPECT_EQ(m.touch_by_host({0, 1}, reads).host_fault_bytes, granule_bytes);
  EXPECT_EQ(m.touch_by_host(blocks(0, 1), reads).host_fault_bytes, bytes(1) - granule_bytes);
  EXPECT_EQ(m.state(0).on_device, 0U);
  EXPECT_EQ(m.held_blocks(), 1U) << "the chunk stays, with nothing in it";
}

TEST(driver_rules, a_fault_of_the_cpu_on_data_that_prefers_the_device_moves_one_page) {
  managed_memory m = on_host(1, 1);
  m.advise(blocks(0, 1), advice::preferred_device);
  m.touch(blocks(0, 1), reads);
  EXPECT_EQ(m.touch_by_host({100, 1}, reads).host_fault_bytes, page_bytes);
}

TEST(driver_rules, evicted_data_is_mapped_again_without_a_copy) {
  managed_memory m = on_host(2, 1);
  m.touch(blocks(0, 2), reads);
  const managed_traffic t = m.touch_by_host(blocks(0, 1), reads);
  EXPECT_EQ(t.host_fault_bytes, 0U);
  EXPECT_EQ(m.state(0).mapped_by_host, all_granules);
}

// --- what it takes ---

struct costs_of : testing::Test {
  machine on = one_granule_a_batch();
  nanoseconds copied = ms / 10;  // a block at the link's rate
};

TEST_F(costs_of, an_isolated_fault_is_interrupt_fault_service_copy_and_batch) {
  on.uvm = {.interrupt_ns = 7, .batch_ns = 11, .fault_ns = 13, .service_ns = 17, .migrate_copy_ns = 19};
  managed_memory m = on_host(1, 1, on);
  m.place_on_host(blocks(0, 1));
  EXPECT_EQ(m.touch(granules(0, 1), reads, {.dependent = true}).time, 7 + 13 + 17 + 19 + ms / 320 + 11);
}

TEST_F(costs_of, every_granule_that_a_fault_brings_in) {
  on.uvm.granule_ns = 10;
  managed_memory m = arena(1, 1, on);
  EXPECT_EQ(m.touch(granules(0, 1), writes).time, 10);
  EXPECT_EQ(m.touch(blocks(0, 1), writes).time, 31 * 10);
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 1)).time, 0);
}

TEST_F(costs_of, a_kernel_pays_the_interrupt_once) {
  on.uvm.interrupt_ns = 1000;
  managed_memory stream = arena(1, 1, on), thread = arena(1, 1, on), later = arena(1, 1, on);
  EXPECT_EQ(stream.touch(blocks(0, 1), writes).time, 1000);
  EXPECT_EQ(thread.touch(blocks(0, 1), writes, {.dependent = true}).time, 1000);
  EXPECT_EQ(later.touch(blocks(0, 1), writes, {}, true).time, 0);
}

TEST_F(costs_of, a_stream_fills_batches_and_a_sparse_touch_faults_twice_a_page) {
  on.uvm.fault_ns = 10;
  on.uvm.batch_granules = 24;
  managed_memory stream = arena(1, 1, on), small = arena(1, 1, on), sparse = arena(1, 1, on);
  EXPECT_EQ(stream.touch(blocks(0, 1), writes).time, 256 * 10) << "24 granules bring the other 8";
  EXPECT_EQ(small.touch(granules(0, 3), writes).time, 256 / 8 * 10);
  EXPECT_EQ(sparse.touch(blocks(0, 1), writes, {.stride = 2, .sparse = true}).time, 16 * 2 * 10);
}

TEST_F(costs_of, a_stream_of_reads_takes_more_batches) {
  on.uvm = {.batch_ns = 1000, .fault_ns = 10, .batch_granules = 32, .read_batches_percent = 150};
  managed_memory m = on_host(1, 1, on), nowhere = arena(1, 1, on), thread = on_host(1, 1, on);
  EXPECT_EQ(m.touch(blocks(0, 1), reads).time, 1500 + 3840 + copied);
  EXPECT_EQ(nowhere.touch(blocks(0, 1), writes).time, 1000 + 2560);
  EXPECT_EQ(thread.touch(granules(0, 1), reads, {.dependent = true}).time, 1000 + 10 + ms / 320);
}

TEST_F(costs_of, a_sparse_touch_asks_for_half_a_block_and_the_rest_comes_along) {
  managed_memory m = arena(4, 4, on);
  const managed_traffic t = m.touch(blocks(0, 4), writes, {.sparse = true});
  EXPECT_EQ(t.faulted_granules, 4 * 17U);
  EXPECT_EQ(t.batches, 1U) << "128 pages fit";
  EXPECT_EQ(t.populated_bytes, bytes(4));
  managed_memory wide = arena(9, 9, on);
  EXPECT_EQ(wide.touch(blocks(0, 9), writes, {.stride = 2, .sparse = true}).batches, 2U);
}

TEST_F(costs_of, a_chunk_is_paid_for_when_a_block_takes_it) {
  on.uvm.chunk_ns = 100;
  on.uvm.populate_ns = 320;
  managed_memory m = arena(2, 2, on);
  EXPECT_EQ(m.touch(granules(0, 1), writes).time, 100);
  EXPECT_EQ(m.touch(granules(1, 1), writes).time, 0);
  EXPECT_EQ(m.prefetch_to_device(blocks(1, 1)).time, 100 + 320);
  m.discard(blocks(1, 1));
  EXPECT_EQ(m.prefetch_to_device(blocks(1, 1)).time, 320) << "the chunk stays with the block";
}

TEST_F(costs_of, what_is_asked_for_is_copied_apart_from_what_comes_with_it) {
  on.uvm.issue_copy_ns = 1000;
  managed_memory m = on_host(1, 1, on), nowhere = arena(1, 1, on);
  EXPECT_EQ(m.touch(granules(0, 1), reads).time, 2 * 1000 + ms / 320);
  EXPECT_EQ(nowhere.touch(granules(0, 1), writes).time, 0);
}

TEST_F(costs_of, faults_in_no_order_unmap_a_block_in_eight_runs) {
  on.uvm.host_unmap_ns = 100;
  on.uvm.batch_granules = 32;
  managed_memory stream = on_host(1, 1, on), every_second = on_host(1, 1, on), call = on_host(1, 1, on);
  EXPECT_EQ(stream.touch(blocks(0, 1), reads).time, 8 * 100 + copied);
  EXPECT_EQ(every_second.touch(blocks(0, 1), reads, {.stride = 2, .sparse = true}).time,
            16 * (100 + ms / 320));
  EXPECT_EQ(call.prefetch_to_device(blocks(0, 1)).time, 100 + copied);
}

TEST_F(costs_of, page_tables_are_written_while_copies_run) {
  on.uvm.granule_ns = 100;
  on.uvm.batch_granules = 32;
  managed_memory m = on_host(1, 1, on);
  EXPECT_EQ(m.touch(blocks(0, 1), reads).time, std::max<nanoseconds>(copied, 32 * 100));
}

TEST_F(costs_of, a_first_visit_maps_host_pages_and_a_mapped_run_is_unmapped) {
  on.uvm.first_visit_ns = 100;
  on.uvm.host_unmap_ns = 7;
  on.uvm.batch_granules = 32;
  managed_memory m = on_host(2, 2, on);
  EXPECT_EQ(m.touch(granules(0, 1), reads).time, 100 + 7 + ms / 320);
  m.prefetch_to_host(granules(0, 1));
  EXPECT_EQ(m.touch(granules(0, 1), reads).time, 7 + ms / 320);
  managed_memory nowhere = arena(1, 1, on);
  EXPECT_EQ(nowhere.touch(blocks(0, 1), reads).time, 0);
}

TEST_F(costs_of, small_host_chunks_are_copied_page_by_page) {
  on.uvm.batch_granules = 32;
  on.uvm.host_chunk_bytes = 4 * KiB;
  on.uvm.page_copy_ns = 3;
  managed_memory m = on_host(1, 1, on);
  EXPECT_EQ(m.touch(blocks(0, 1), reads).time, copied + 512 * 3);
}

TEST_F(costs_of, the_copy_in_waits_for_the_copy_out_of_its_victim) {
  on.uvm.batch_granules = 32;
  on.uvm.evict_ns = 50;
  on.link_both_bytes_per_s = blocks_per_ms(20);
  managed_memory m = on_host(2, 1, on);
  m.touch(blocks(0, 1), reads);
  EXPECT_EQ(m.touch(blocks(1, 1), reads).time, 50 + 2 * copied);
}

TEST_F(costs_of, within_a_batch_one_blocks_copy_out_runs_beside_anothers_copy_in) {
  on.uvm.batch_granules = 64;
  on.link_both_bytes_per_s = blocks_per_ms(20);
  managed_memory m = on_host(4, 2, on);
  m.touch(blocks(0, 2), reads);
  EXPECT_EQ(m.touch(blocks(2, 2), reads).time, 3 * copied);
}

TEST_F(costs_of, copies_both_ways_do_not_beat_what_the_link_carries_both_ways) {
  on.uvm.batch_granules = 256;
  on.link_both_bytes_per_s = blocks_per_ms(11);
  managed_memory m = on_host(16, 8, on);
  m.touch(blocks(0, 8), reads);
  EXPECT_EQ(m.touch(blocks(8, 8), reads).time, (16 * ms + 10) / 11);
}

TEST_F(costs_of, a_prefetch_copies_while_it_works_on_the_next_block) {
  on.uvm.prefetch_block_ns = 10;
  on.uvm.prefetch_call_ns = 1000;
  on.uvm.prefetch_queued_ns = 300;
  managed_memory m = on_host(8, 8, on);
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 1)).time, 1000 + 10 + copied);
  EXPECT_EQ(m.prefetch_to_device(blocks(1, 7), true).time, 1000 + 2 * 300 + 10 + 7 * copied);
  EXPECT_EQ(m.prefetch_to_device(blocks(0, 8)).time, 2 * 8 * 10) << "nothing to move";
}

TEST_F(costs_of, a_prefetch_to_the_host_maps_every_page_for_the_cpu) {
  on.uvm.host_map_page_ns = 1000;
  on.uvm.prefetch_to_host_call_ns = 77;
  managed_memory m = on_host(4, 4, on);
  m.touch(blocks(0, 4), reads);
  EXPECT_EQ(m.prefetch_to_host(blocks(0, 1)).time, 77 + copied + 512'000);
  EXPECT_EQ(m.prefetch_to_host(blocks(1, 3)).time, 77 + copied + 3 * 512'000) << "later copies are hidden";
}

TEST_F(costs_of, host_pages_are_cleared_where_no_value_is_copied) {
  on.uvm.host_populate_ns = 320;
  on.uvm.host_clear_ns = 3200;
  managed_memory m = arena(2, 2, on);
  m.touch(blocks(0, 2), writes);
  m.discard(blocks(1, 1));
  EXPECT_EQ(m.prefetch_to_host(blocks(0, 1)).time, 320 + copied);
  EXPECT_EQ(m.prefetch_to_host(blocks(1, 1)).time, 320 + 3200);
}

TEST_F(costs_of, data_that_lies_nowhere_is_cleared_once_its_victim_has_left) {
  on.uvm = {
      .batch_granules = 32, .service_ns = 17, .chunk_ns = 100, .evict_ns = 1000, .host_populate_ns = 320};
  constexpr nanoseconds cleared = ms / 100;
  managed_memory m = arena(3, 1, on);
  EXPECT_EQ(m.touch(blocks(0, 1), writes).time, 17 + 100) << "a chunk that was never used is clean";
  const managed_traffic t = m.touch(blocks(1, 1), writes);
  EXPECT_EQ(t.time, 17 + 1000 + 320 + copied + cleared)
      << "its own chunk is taken while the victim's copy runs";
  EXPECT_EQ(t.evicted_bytes, bytes(1));
  EXPECT_EQ(t.populated_bytes, bytes(1));
  m.touch(blocks(2, 1), writes);
  EXPECT_EQ(m.touch(blocks(0, 1), reads).time, 17 + 1000 + 320 + copied + copied)
      << "one comes back, none is cleared";
}

TEST_F(costs_of, a_victim_with_nothing_in_it_costs_what_is_done_anew) {
  on.uvm = {
      .batch_granules = 32, .service_ns = 17, .chunk_ns = 100, .evict_ns = 1000, .prefetch_block_ns = 5};
  constexpr nanoseconds cleared = ms / 100;
  managed_memory m = arena(2, 1, on), called = m;
  for (managed_memory* const each : {&m, &called}) {
    each->touch(blocks(0, 1), writes);
    each->discard(blocks(0, 1));
  }
  const managed_traffic t = m.touch(blocks(1, 1), writes);
  EXPECT_EQ(t.time, 2 * 17 + 100 + cleared);
  EXPECT_EQ(t.evicted_blocks, 0U);
  EXPECT_EQ(called.prefetch_to_device(blocks(1, 1)).time, 2 * 5 + 100 + cleared);
}

TEST_F(costs_of, discarded_data_that_leaves_takes_host_pages_and_no_copy) {
  on.uvm = {.batch_granules = 32,
            .service_ns = 17,
            .evict_ns = 1000,
            .host_populate_ns = 320,
            .host_clear_ns = 3200};
  managed_memory m = arena(2, 1, on);
  m.touch(blocks(0, 1), writes);
  m.discard(blocks(0, 1));
  m.touch(blocks(0, 1), reads);
  const managed_traffic t = m.touch(blocks(1, 1), writes);
  EXPECT_EQ(t.evicted_bytes, 0U);
  EXPECT_EQ(t.host_populated_bytes, bytes(1));
  EXPECT_EQ(t.time, 17 + 1000 + 320 + 3200 + ms / 100);
}

TEST_F(costs_of, host_pages_of_data_that_prefers_the_host_need_no_room_on_a_full_device) {
  on.uvm.service_ns = 17;
  on.uvm.evict_ns = 1000;
  on.uvm.host_populate_ns = 320;
  on.uvm.host_clear_ns = 3200;
  on.uvm.batch_granules = 32;
  managed_memory m = arena(2, 1, on);
  m.advise(blocks(1, 1), advice::preferred_host);
  m.touch(blocks(0, 1), writes);
  const managed_traffic t = m.touch(blocks(1, 1), writes);
  EXPECT_EQ(t.time, 17 + 320 + 3200 + copied) << "and written over the link";
  EXPECT_EQ(t.evicted_blocks, 0U);
  EXPECT_EQ(resident(m), (ids{0}));
}

TEST_F(costs_of, host_pages_are_allocated_once) {
  on.uvm.host_populate_ns = 320;
  managed_memory m = arena(1, 1, on);
  m.touch(blocks(0, 1), writes);
  EXPECT_EQ(m.prefetch_to_host(granules(0, 1)).time, 320 + ms / 320) << "all of the block's";
  EXPECT_EQ(m.prefetch_to_host(granules(1, 1)).time, ms / 320);
  m.prefetch_to_device(granules(0, 1));
  EXPECT_EQ(m.prefetch_to_host(granules(0, 1)).time, ms / 320);
  on.uvm.host_chunk_bytes = granule_bytes;
  managed_memory apart = arena(1, 1, on);
  apart.touch(blocks(0, 1), writes);
  EXPECT_EQ(apart.prefetch_to_host(granules(0, 1)).time, 10 + ms / 320);
  EXPECT_EQ(apart.prefetch_to_host(granules(0, 2)).time, 10 + ms / 320);
}

TEST_F(costs_of, a_host_chunk_is_cleared_whole_where_part_of_the_block_lies_nowhere) {
  on.uvm.host_populate_ns = 320;
  on.uvm.host_clear_ns = 3200;
  managed_memory m = arena(1, 1, on);
  m.touch(granules(0, 16), writes);
  EXPECT_EQ(m.prefetch_to_host(granules(0, 16)).time, 320 + 3200 + 16 * ms / 320)
      << "what comes is copied over it";
  m.touch(granules(16, 16), writes);
  EXPECT_EQ(m.prefetch_to_host(granules(16, 16)).time, 16 * ms / 320);
  on.uvm.host_chunk_bytes = granule_bytes;
  managed_memory apart = arena(1, 1, on);
  apart.touch(granules(0, 16), writes);
  EXPECT_EQ(apart.prefetch_to_host(granules(0, 16)).time, 160 + 16 * ms / 320);
  managed_memory half = arena(1, 1, on);
  half.touch(granules(0, 16), writes);
  EXPECT_EQ(half.prefetch_to_host(granules(0, 32)).time, 320 + 1600 + 16 * ms / 320) << "page by page";
}

// --- the arena ---

TEST(managed_memory, a_range_beyond_the_arena_is_refused) {
  managed_memory m = arena(2, 2);
  EXPECT_THROW(m.touch(blocks(1, 2), reads), std::out_of_range);
  EXPECT_THROW(m.discard(blocks(3, 1)), std::out_of_range);
  EXPECT_THROW(m.touch({managed_block, ~byte_count{0}}, reads), std::out_of_range);
  EXPECT_THROW(m.state(2), std::out_of_range);
  EXPECT_THROW(arena(2, 0), std::invalid_argument);
}

TEST(managed_memory, touching_nothing_does_nothing) {
  managed_memory m = arena(2, 2);
  EXPECT_TRUE(does_nothing(m.touch({managed_block, 0}, writes)));
  EXPECT_TRUE(does_nothing(m.prefetch_to_device({0, 0})));
  EXPECT_TRUE(does_nothing(m.prefetch_to_host({0, 0})));
  EXPECT_TRUE(does_nothing(m.discard({5, 0})));
  EXPECT_TRUE(m.would_hit({0, 0}, reads));
}

TEST(managed_memory, copies_are_independent) {
  managed_memory a = on_host(2, 1);
  managed_memory b = a;
  a.touch(blocks(0, 1), reads);
  EXPECT_EQ(b.held_blocks(), 0U);
  EXPECT_EQ(b.touch(blocks(0, 2), reads).evicted_bytes, bytes(1));
}

// --- orders ---

TEST(driver_rules, a_sparse_touch_leaves_no_granule_of_discarded_data_unserved) {
  managed_memory m = on_host(1, 1);
  m.touch(blocks(0, 1), writes);
  m.discard(blocks(0, 1));
  m.touch(blocks(0, 1), writes, {.sparse = true});
  EXPECT_TRUE(m.would_hit(blocks(0, 1), reads));
  EXPECT_TRUE(m.would_hit(blocks(0, 1), writes));
  EXPECT_EQ(m.state(0).discarded, 0U);
}

TEST(driver_rules, sparse_access_over_the_link_is_of_the_pages_that_are_touched) {
  managed_memory m = on_host(2, 2);
  m.advise(blocks(0, 2), advice::preferred_host);
  EXPECT_EQ(m.touch(blocks(0, 2), reads, {.sparse = true}).remote_bytes, 64 * page_bytes);
  EXPECT_EQ(m.touch(blocks(0, 2), reads, {.stride = 2, .sparse = true}).remote_bytes, 32 * page_bytes);
}

TEST(driver_rules, what_is_missing_is_what_a_touch_would_not_find) {
  managed_memory m = on_host(6, 6);
  m.touch(blocks(1, 1), reads);
  m.touch(blocks(3, 1), reads);
  const std::vector<range> runs{blocks(0, 2), blocks(3, 3)};
  EXPECT_EQ(m.missing_ranges(runs, reads), (std::vector{blocks(0, 1), blocks(4, 2)}));
  const range part{managed_block / 2 + 100, managed_block};
  EXPECT_EQ(m.missing_ranges({part}, reads), (std::vector{range{part.offset, managed_block / 2 - 100}}));
  m.advise(blocks(1, 1), advice::read_mostly);
  EXPECT_EQ(m.missing_ranges({blocks(1, 1)}, writes), (std::vector{blocks(1, 1)}));
  m.advise(blocks(5, 1), advice::preferred_host);
  EXPECT_EQ(m.missing_ranges({blocks(5, 1)}, reads), (std::vector{blocks(5, 1)})) << "over the link";
}

TEST(driver_rules, a_shuffled_touch_fetches_the_faults_of_every_page) {
  machine on = round_machine();
  on.uvm.fault_ns = 10'000'000;  // everything else takes less
  on.uvm.faults_of_page = 2;
  const nanoseconds of_all_pages = on.uvm.fault_ns * 2 * pages_per_granule * granules_per_block * 4;
  const auto time_of = [&](touch_pattern how) {
    return on_host(4, 4, on).touch(blocks(0, 4), reads, how).time;
  };
  EXPECT_GE(time_of({.shuffled = true}), of_all_pages);
  EXPECT_LT(time_of({.shuffled = true}), of_all_pages * 11 / 10);
  EXPECT_LT(time_of({.sparse = true}), of_all_pages / pages_per_granule * 2);
}

TEST(driver_rules, faults_from_everywhere_bring_every_byte_once_and_in_more_services) {
  managed_memory together = on_host(64, 64), apart = on_host(64, 64);
  const managed_traffic one = together.touch(blocks(0, 64), reads);
  const managed_traffic other = apart.touch(blocks(0, 64), reads, {.shuffled = true});
  EXPECT_EQ(one.fault_bytes, bytes(64));
  EXPECT_EQ(other.fault_bytes, bytes(64));
  EXPECT_GT(other.services, 2 * one.services);
  EXPECT_TRUE(apart.would_hit(blocks(0, 64), reads));
}

TEST(driver_rules, faults_from_everywhere_under_pressure_end) {
  managed_memory m = on_host(64, 3);
  const managed_traffic t = m.touch(blocks(0, 64), reads, {.shuffled = true});
  EXPECT_GE(t.fault_bytes, bytes(64));
  EXPECT_LE(m.held_blocks(), 3U);
}

}  // namespace
}  // namespace um
