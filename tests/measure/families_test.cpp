#include "measure/families.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backends/cuda/cupti_counters.hpp"

namespace um::measure {
namespace {

const device_facts made_up{"made up", 132, false};

std::vector<benchmark_case> all_cases() {
  std::vector<benchmark_case> all;
  for (const family& f : families()) {
    for (benchmark_case& m : f.cases(made_up)) all.push_back(std::move(m));
  }
  return all;
}

TEST(families, name_every_case_once) {
  std::set<std::string> names;
  for (const benchmark_case& m : all_cases()) EXPECT_TRUE(names.insert(m.name).second) << m.name;
  EXPECT_GT(names.size(), 300U);
}

TEST(families, begin_the_names_of_their_cases) {
  for (const family& f : families()) {
    for (const benchmark_case& m : f.cases(made_up)) {
      EXPECT_TRUE(m.name.starts_with(std::string(f.name) + '/')) << m.name;
    }
  }
}

TEST(families, say_how_residency_is_put_back) {
  for (const benchmark_case& m : all_cases()) {
    EXPECT_FALSE(m.reset_text.empty()) << m.name;
    EXPECT_GE(m.repetitions, 1) << m.name;
    EXPECT_TRUE(m.prepare) << m.name;
  }
}

TEST(families, know_the_bytes_of_what_goes_over_the_link) {
  for (const benchmark_case& m : all_cases()) {
    EXPECT_TRUE(m.link_direction == copy_direction::none || m.bytes > 0) << m.name;
  }
}

// Counts are held to these, so a case that is counted and moves everything must say so.
TEST(families, are_sure_of_what_moves_only_where_it_is_counted) {
  int in = 0, out = 0;
  for (const benchmark_case& m : all_cases()) {
    EXPECT_TRUE(m.migrates || (m.expected_in_bytes == 0 && m.expected_out_bytes == 0)) << m.name;
    EXPECT_LE(std::max(m.expected_in_bytes, m.expected_out_bytes), m.bytes) << m.name;
    in += m.expected_in_bytes > 0 ? 1 : 0;
    out += m.expected_out_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(in, 20);
  EXPECT_GT(out, 15);
}

// The driver faults page by page there: seconds a gigabyte.
TEST(families, write_to_discarded_data_in_small) {
  for (const benchmark_case& m : discard_cases(made_up)) {
    EXPECT_TRUE(!m.name.starts_with("discard/write/") || m.bytes <= 16 * MiB) << m.name;
  }
}

TEST(families, follow_the_size_of_the_gpu) {
  const auto has = [](const device_facts& on, const std::string& part) {
    const auto cases = fault_cases(on);
    return std::any_of(cases.begin(), cases.end(),
                       [&](const benchmark_case& m) { return m.name.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(has(made_up, "/blocks:132/"));
  EXPECT_TRUE(has({"other", 56, false}, "/blocks:56/"));
}

TEST(in_name, is_short) {
  EXPECT_EQ(bytes_text(64 * KiB), "64KiB");
  EXPECT_EQ(bytes_text(8 * GiB), "8GiB");
  EXPECT_EQ(bytes_text(1000), "1000B");
}

TEST(median_of, is_the_middle) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 9}), 3);
  EXPECT_EQ(median_of({7}), 7);
}

// Records of CUPTI's unified memory counters, laid out as CUDA 12 and 13 do; no GPU is needed to
// read them.

// The layout of CUDA 12 (76 bytes of fields and a pad), then what CUDA 13 appends.
struct record_12 {
  std::uint32_t kind = 25, counter = 0;
  std::uint64_t value = 0, start = 0, end = 0, address = 0;
  std::uint32_t source = 0, destination = 0, stream = 0, process = 0, flags = 0, pad = 0;
};
struct record_13 {
  record_12 head;
  std::uint64_t processors[5] = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
};

template <class Layout>
record_12& head_of(Layout& of) {
  if constexpr (std::is_same_v<Layout, record_13>) {
    return of.head;
  } else {
    return of;
  }
}

template <class Layout>
class records : public ::testing::Test {
 protected:
  void add(std::uint32_t counter, std::uint64_t value, std::uint32_t flags = 0, std::uint64_t end = 0) {
    Layout made;
    head_of(made).counter = counter;
    head_of(made).value = value;
    head_of(made).flags = flags;
    head_of(made).end = end;
    add_record(counts_, reinterpret_cast<const std::byte*>(&made));
  }
  unified_memory_counts counts_;
};
using layouts = ::testing::Types<record_12, record_13>;
TYPED_TEST_SUITE(records, layouts);

TYPED_TEST(records, of_transfers_are_summed_by_cause) {
  this->add(1, 4096, 2);
  this->add(1, 61440, 3);
  this->add(2, 2097152, 4);
  EXPECT_EQ(this->counts_.to_device.total, 65536U);
  EXPECT_EQ(this->counts_.to_device.by_cause[static_cast<std::size_t>(migration_cause::demand)], 4096U);
  EXPECT_EQ(this->counts_.to_device.by_cause[static_cast<std::size_t>(migration_cause::tree)], 61440U);
  EXPECT_EQ(this->counts_.to_host.by_cause[static_cast<std::size_t>(migration_cause::eviction)], 2097152U);
  EXPECT_EQ(this->counts_.record_count, 3U);
}

TYPED_TEST(records, of_unknown_causes_count_as_unknown) {
  this->add(2, 64, 77);
  EXPECT_EQ(this->counts_.to_host.by_cause[0], 64U);
}

TYPED_TEST(records, of_faults_replayed_together_are_a_batch) {
  this->add(4, 3, 1, 1000);
  this->add(4, 1, 1, 1000);
  this->add(4, 1, 1, 1000);
  this->add(4, 2, 1, 2000);
  this->add(3, 0x400000);
  EXPECT_EQ(this->counts_.gpu_faults, 4U);
  EXPECT_EQ(this->counts_.gpu_fault_groups, 7U);
  ASSERT_EQ(this->counts_.faults_by_batch.size(), 2U);
  EXPECT_EQ(this->counts_.faults_by_batch.at(1000), 5U);
  EXPECT_EQ(this->counts_.cpu_faults, 1U);
}

TYPED_TEST(records, become_the_counters_of_a_cell) {
  this->add(1, 4096, 2);
  this->add(1, 61440, 3);
  this->add(1, 100, 1);
  this->add(2, 200, 1);
  this->add(4, 5, 1, 1000);
  const counters quiet = counters_of(this->counts_);
  EXPECT_EQ(quiet.faults, 5U);
  EXPECT_EQ(quiet.fault_batches, 1U);
  EXPECT_EQ(quiet.fault_to_device_bytes, 65536U);
  EXPECT_EQ(quiet.prefetch_to_device_bytes, 100U);
  EXPECT_EQ(quiet.plan_evict_bytes, 200U);
  EXPECT_EQ(quiet.driver_evict_bytes, 0U);
  EXPECT_EQ(quiet.evicted_blocks, 0U);
  EXPECT_FALSE(quiet.copy_to_device_bytes || quiet.copy_to_host_bytes || quiet.remote_bytes);
  this->add(2, 2097152, 4);
  EXPECT_EQ(counters_of(this->counts_).driver_evict_bytes, 2097152U);
  EXPECT_FALSE(counters_of(this->counts_).evicted_blocks);
  this->add(2, 64, 77);
  EXPECT_FALSE(counters_of(this->counts_).driver_evict_bytes);
  EXPECT_EQ(counters_of(this->counts_).prefetch_to_device_bytes, 100U);
}

TYPED_TEST(records, of_demanded_bytes_without_their_faults_are_not_whole) {
  EXPECT_TRUE(is_complete(this->counts_));
  this->add(1, 61440, 3);
  EXPECT_TRUE(is_complete(this->counts_));
  this->add(1, 4096, 2);
  EXPECT_FALSE(is_complete(this->counts_));
  this->add(4, 1, 1, 1000);
  EXPECT_TRUE(is_complete(this->counts_));
  this->counts_.dropped_records = 1;
  EXPECT_FALSE(is_complete(this->counts_));
}

TYPED_TEST(records, that_miss_what_the_driver_moved_are_not_whole) {
  this->counts_.lost_bytes = 1;
  EXPECT_FALSE(is_complete(this->counts_));
}

TYPED_TEST(records, counted_without_faults_tell_bytes_alone) {
  this->counts_.counts_faults = false;
  this->add(1, 4096, 2);
  EXPECT_TRUE(is_complete(this->counts_));
  EXPECT_FALSE(counters_of(this->counts_).faults);
  EXPECT_EQ(counters_of(this->counts_).fault_to_device_bytes, 4096U);
}

TEST(other_records, are_passed_over) {
  unified_memory_counts counts;
  record_12 kernel;
  kernel.kind = 10;
  kernel.counter = 1;
  kernel.value = 99;
  add_record(counts, reinterpret_cast<const std::byte*>(&kernel));
  EXPECT_EQ(counts.to_device.total, 0U);
  EXPECT_EQ(counts.record_count, 0U);
}

}  // namespace
}  // namespace um::measure
