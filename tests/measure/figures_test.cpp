// The arithmetic of a calibration: from readings made of known costs the same costs must come out.
#include "benchmarks/measure/figures.hpp"

#include <gtest/gtest.h>

#include "benchmarks/measure/calibration_sizes.hpp"
#include "core/machine.hpp"

namespace um::measure {
namespace {

constexpr double link = 50e9;  // both ways
constexpr uvm_costs truth{.interrupt_ns = 7000,
                          .batch_ns = 14000,
                          .fault_ns = 60,
                          .batch_granules = 6,
                          .service_ns = 8000,
                          .first_visit_ns = 100000,
                          .host_unmap_ns = 3500,
                          .page_fault_ns = 5000,
                          .migrate_copy_ns = 2500,
                          .host_populate_ns = 200000,
                          .host_map_page_ns = 160,
                          .host_fault_ns = 10000,
                          .prefetch_call_ns = 60000,
                          .prefetch_to_host_call_ns = 7000,
                          .prefetch_walk_ns = 300000,
                          .prefetch_block_ns = 1000,
                          .discard_block_ns = 6000};

double at_link(byte_count bytes) {
  return static_cast<double>(bytes) * 1e9 / link;
}
double times(double n, nanoseconds each) {
  return n * static_cast<double>(each);
}

// What a machine of these costs would show, streams of 256 MiB in batches of 3 to a block.
readings shown() {
  constexpr double blocks = 128, batches = 3 * blocks;
  const double stream = batches * (14000 + 6 * 60) + blocks * 8000;
  const double one_fault = 7000 + 14000 + 8000 + 60 + 2500 + at_link(granule);
  const double moved = 2500 + at_link(managed_block);
  const double mapped = times(512, truth.host_map_page_ns);
  return {{"link_to_device", {at_link(link_bytes)}},
          {"link_to_host", {at_link(link_bytes)}},
          {"link_both", {at_link(link_bytes)}},
          {"small_copies", {copies * (5000 + at_link(small_copy))}},
          {"launches", {launches * 3000.0}},
          {"device_copy", {1e6}},
          {"product_fp32", {2e7}},
          {"product_tf32", {3e6}},
          {"product_bf16", {1.5e6}},
          {"free_device_bytes", {1e11}},
          {"multiprocessors", {132}},
          {"stream_nowhere", {batches * (14000 + 8000 + 6 * 60)}},
          {"batches_nowhere", {batches}},
          {"batches_mapped", {batches}},
          {"stream_unmapped", {stream}},
          {"stream_mapped", {stream + batches * 3500}},
          {"stream_cold", {stream + batches * 3500 + blocks * 100000}},
          {"isolated_fault", {one_fault}},
          {"few_granules", {1e5}},
          {"many_granules", {1e5 + 12 * (60 + at_link(granule))}},
          {"granules_of_few_blocks", {5e4 + few_blocks * (8000 + 60)}},
          {"granules_of_many_blocks", {5e4 + many_blocks * (8000 + 60)}},
          {"cpu_touches", {64 * (10000 + at_link(granule) + 2500 + 16 * 160)}},
          {"refill", {16384 * 5000.0}},
          {"prefetch_in_2MiB", {60000 + moved}},
          {"prefetch_in_32MiB", {60000 + 300000 + 16 * moved}},
          {"prefetch_in_1GiB", {512 * moved}},
          {"prefetch_there_1GiB", {1024 * 1000.0}},
          {"prefetch_out_2MiB", {7000 + at_link(managed_block) + mapped}},
          {"prefetch_out_256MiB", {blocks * (2000 + mapped)}},
          {"prefetch_out_1GiB", {512 * (2000 + mapped)}},
          {"prefetch_out_new", {blocks * (2000 + mapped + 200000)}},
          {"discard_1GiB", {512 * 6000.0}},
          {"remote_read", {at_link(stream_bytes)}},
          {"remote_write", {at_link(stream_bytes)}}};
}

TEST(figures, are_the_costs_that_the_readings_were_made_of) {
  const figures found = figures_from(shown());
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
  const auto expect = [&](const char* name, nanoseconds value) {
    ASSERT_EQ(found.by_name.count(name), 1U) << name;
    EXPECT_NEAR(found.by_name.at(name).median, static_cast<double>(value), 1) << name;
  };
  expect("uvm.interrupt_ns", truth.interrupt_ns);
  expect("uvm.batch_ns", truth.batch_ns);
  expect("uvm.fault_ns", truth.fault_ns);
  expect("uvm.batch_granules", 6);
  expect("uvm.service_ns", truth.service_ns);
  expect("uvm.first_visit_ns", truth.first_visit_ns);
  expect("uvm.host_unmap_ns", truth.host_unmap_ns);
  expect("uvm.page_fault_ns", truth.page_fault_ns);
  expect("uvm.migrate_copy_ns", truth.migrate_copy_ns);
  expect("uvm.host_populate_ns", truth.host_populate_ns);
  expect("uvm.host_map_page_ns", truth.host_map_page_ns);
  expect("uvm.host_fault_ns", truth.host_fault_ns);
  expect("uvm.prefetch_call_ns", truth.prefetch_call_ns);
  expect("uvm.prefetch_to_host_call_ns", truth.prefetch_to_host_call_ns);
  expect("uvm.prefetch_walk_ns", truth.prefetch_walk_ns);
  expect("uvm.prefetch_block_ns", truth.prefetch_block_ns);
  expect("uvm.discard_block_ns", truth.discard_block_ns);
  expect("uvm.evict_ns", 7000 + 8000);
  expect("launch_ns", 3000);
  expect("copy_ns", 5000);
  expect("link_to_device_bytes_per_s", 50'000'000'000);
  expect("link_both_bytes_per_s", 100'000'000'000);
}

TEST(figures, that_need_what_was_not_read_are_left_out_and_noted) {
  readings some = shown();
  some.erase("prefetch_there_1GiB");
  const figures found = figures_from(some);
  EXPECT_EQ(found.by_name.count("uvm.prefetch_block_ns"), 0U);
  EXPECT_EQ(found.by_name.count("uvm.host_map_page_ns"), 0U);
  EXPECT_EQ(found.by_name.count("uvm.migrate_copy_ns"), 1U);
  EXPECT_NE(found.notes.front().find("prefetch_there_1GiB"), std::string::npos);
}

TEST(figures, of_a_fault_are_kept_whole_or_not_at_all) {
  readings uncounted = shown(), below_zero = shown();
  uncounted.erase("batches_nowhere");
  below_zero["isolated_fault"] = {100};
  for (const readings& odd : {uncounted, below_zero}) {
    const figures found = figures_from(odd);
    for (const char* name : {"uvm.interrupt_ns", "uvm.batch_ns", "uvm.fault_ns", "uvm.batch_granules",
                             "uvm.service_ns", "uvm.evict_ns"}) {
      EXPECT_EQ(found.by_name.count(name), 0U) << name;
    }
    EXPECT_EQ(found.by_name.count("uvm.host_map_page_ns"), 1U);
    EXPECT_NE(found.notes.back().find("could not be told apart"), std::string::npos);
  }
}

// Counted on a stream of 128 blocks; with fewer granules a batch of the same length has more to it.
TEST(figures, of_a_batch_follow_from_the_batches_of_a_block) {
  const std::map<double, double> granules{{128, 24}, {230, 12}, {384, 6}, {640, 2}, {5000, 1}};
  for (const auto& [batches, expected] : granules) {
    readings counted = shown();
    counted["batches_mapped"] = {batches};
    counted["isolated_fault"] = {1e5};
    const figures found = figures_from(counted);
    ASSERT_EQ(found.by_name.count("uvm.batch_granules"), 1U) << batches << ' ' << found.notes.front();
    EXPECT_EQ(found.by_name.at("uvm.batch_granules").median, expected);
  }
}

TEST(figures, below_zero_become_zero_and_are_noted) {
  readings odd = shown();
  odd["stream_unmapped"] = {odd.at("stream_mapped").front() * 2};
  const figures found = figures_from(odd);
  EXPECT_EQ(found.by_name.at("uvm.host_unmap_ns").median, 0);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_NE(found.notes.front().find("uvm.host_unmap_ns"), std::string::npos);
}

TEST(figures, keep_how_far_samples_lie_apart) {
  readings shaky = shown();
  shaky["discard_1GiB"] = {512 * 5000.0, 512 * 6000.0, 512 * 9000.0};
  const spread s = figures_from(shaky).by_name.at("uvm.discard_block_ns");
  EXPECT_EQ(s.least, 5000);
  EXPECT_EQ(s.median, 6000);
  EXPECT_EQ(s.most, 9000);
}

}  // namespace
}  // namespace um::measure
