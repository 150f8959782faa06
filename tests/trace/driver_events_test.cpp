// Events as the driver lays them out become records, and none is lost or read twice.
#include "trace/driver_events.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/trace/lines.hpp"
#include "trace/event_sums.hpp"

namespace um::tracing {
namespace {

constexpr nanoseconds ahead = 1'000'000;
constexpr std::uint32_t gpu = 3;

struct made_event {
  std::array<std::byte, uvm::event_bytes> bytes{};

  made_event& with(std::size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    return *this;
  }
};

made_event event_of(std::uint8_t type) {
  return made_event{}.with(0, type);
}

made_event migration_of(std::uint8_t cause, std::uint8_t source, std::uint8_t destination,
                        std::uint64_t bytes) {
  return event_of(2)
      .with(1, cause)
      .with(2, source)
      .with(3, destination)
      .with(8, base)
      .with(16, bytes)
      .with(24, std::uint64_t{500})
      .with(48, std::uint64_t{7'000})
      .with(56, std::uint64_t{7'300});
}

// The GPU's clock is 5 ms ahead of the CPU's; the driver sees a fault `late` after it happened.
constexpr std::uint64_t gpu_ahead = 5'000'000;

made_event fault_of(std::uint32_t batch, std::uint64_t address, std::uint8_t access, std::uint64_t late = 0) {
  return event_of(3)
      .with(2, access)
      .with(3, std::uint8_t{1})
      .with(8, address)
      .with(16, std::uint64_t{400})
      .with(24, 400 + gpu_ahead - late)
      .with(32, batch);
}

made_event replay_of(std::uint32_t batch) {
  return event_of(4)
      .with(1, std::uint8_t{1})
      .with(4, batch)
      .with(8, std::uint64_t{850})
      .with(16, 900 + gpu_ahead);
}

class driver_events_read : public ::testing::Test {
 protected:
  void add(const made_event& e) {
    translate.add(e.bytes, ahead, gpu, [this](const unified_memory_record& r) { records.push_back(r); });
  }
  event_translator translate;
  std::vector<unified_memory_record> records;
};

TEST_F(driver_events_read, migrations_have_cause_ways_and_the_time_that_the_gpu_took) {
  add(migration_of(2, 0, 1, 65536));
  add(migration_of(4, 1, 0, 4096));
  add(migration_of(1, 0, 0, 4096));  // between nodes of the CPU
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].counter, counter_kind::bytes_to_device);
  EXPECT_EQ(records[0].value, 65536U);
  EXPECT_EQ(records[0].destination, gpu);
  EXPECT_EQ(records[0].flags, static_cast<std::uint32_t>(cause::demand));
  EXPECT_EQ(records[0].start, 1'000'500U);
  EXPECT_EQ(records[0].end, 1'000'800U);
  EXPECT_EQ(records[1].counter, counter_kind::bytes_to_host);
  EXPECT_EQ(records[1].source, gpu);
  EXPECT_EQ(records[1].flags, static_cast<std::uint32_t>(cause::eviction));
}

TEST_F(driver_events_read, faults_of_a_batch_in_a_block_are_one_until_the_replay) {
  add(fault_of(7, base, 1));
  add(fault_of(7, base + 4096, 1, 150));  // of the same granule, but earlier
  add(fault_of(7, base + 65536, 1));
  add(fault_of(7, base + block_bytes, 1));
  add(fault_of(8, base, 2));
  EXPECT_TRUE(records.empty());
  add(replay_of(7));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].counter, counter_kind::gpu_page_fault);
  EXPECT_EQ(records[0].value, 2U);
  EXPECT_EQ(records[1].value, 1U);
  EXPECT_EQ(records[0].start, 1'000'250U);
  EXPECT_EQ(records[0].end, 1'000'900U);
  EXPECT_EQ(records[0].source, gpu);
  add(replay_of(7));  // of another process
  EXPECT_EQ(records.size(), 2U);
  add(replay_of(8));
  EXPECT_EQ(records.back().flags, static_cast<std::uint32_t>(access::write));
}

TEST_F(driver_events_read, faults_without_a_replay_end_with_the_last_of_their_batch) {
  const auto hand_out = [this](const unified_memory_record& r) { records.push_back(r); };
  add(fault_of(7, base + block_bytes, 1));
  add(fault_of(7, base, 1, 150));
  translate.end_open_batches(hand_out);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].start, 1'000'250U);
  EXPECT_EQ(records[0].end, 1'000'400U);
  EXPECT_EQ(records[1].end, 1'000'400U);
  add(replay_of(7));
  translate.end_open_batches(hand_out);
  EXPECT_EQ(records.size(), 2U);
}

TEST(gpu_time_converter, follows_a_drift_within_two_seconds) {
  gpu_time_converter clock;
  EXPECT_EQ(clock.to_cpu_time(5, 3), 3U);  // nothing is known yet
  constexpr std::uint64_t second = 1'000'000'000;
  clock.add_sample(10 * second, second);
  EXPECT_EQ(clock.to_cpu_time(10 * second + 7, 0), second + 7);
  EXPECT_EQ(clock.to_cpu_time(0, 3), 3U);
  for (std::uint64_t i = 2; i < 5; ++i) clock.add_sample((9 + i) * second, i * second + 2 * i);
  EXPECT_EQ(clock.to_cpu_time(13 * second, 0), 4 * second + 6);
  clock.add_sample(200 * second, 180 * second);  // after a long pause the old distance says nothing
  EXPECT_EQ(clock.to_cpu_time(200 * second, 0), 180 * second);
}

TEST_F(driver_events_read, faults_of_the_cpu_name_the_code) {
  add(event_of(1).with(1, std::uint8_t{2}).with(8, base).with(16, std::uint64_t{10}).with(32, 0xABCDUL));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].counter, counter_kind::cpu_page_fault);
  EXPECT_EQ(records[0].value, 0xABCDU);
  EXPECT_EQ(records[0].flags, static_cast<std::uint32_t>(access::write));
}

// As the driver does (enqueue_event of uvm_tools.c): one place stays free.
bool put(const event_ring& ring, const made_event& e) {
  const tracked_memory memory = ring.memory();
  auto* const control = static_cast<event_ring::control*>(memory.control);
  const std::uint32_t at = control->put_behind, next = (at + 1) % memory.entries;
  if (next == control->get_behind) {
    ++control->lost[2];
    return false;
  }
  std::memcpy(static_cast<std::byte*>(memory.queue) + std::size_t{at} * uvm::event_bytes, e.bytes.data(),
              uvm::event_bytes);
  control->put_ahead = control->put_behind = next;
  return true;
}

TEST(event_ring, hands_out_each_event_once_around_its_end_and_counts_what_was_lost) {
  event_ring ring(8);
  ASSERT_EQ(ring.memory().entries, 8U);
  std::uint64_t sent = 0, seen = 0;
  const auto take = [&seen](driver_event e) {
    std::uint64_t value = 0;
    std::memcpy(&value, e.data() + 16, sizeof(value));
    EXPECT_EQ(value, seen++);
  };
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(put(ring, migration_of(2, 0, 1, sent++)));
    EXPECT_EQ(ring.read(take), 5U);
  }
  EXPECT_EQ(ring.read(take), 0U);
  EXPECT_EQ(ring.lost(), 0U);
  for (int i = 0; i < 9; ++i) put(ring, migration_of(2, 0, 1, sent++));
  EXPECT_EQ(ring.lost(), 2U);
  EXPECT_EQ(ring.read(take), 7U);
}

TEST(driver_events, tell_nothing_without_a_driver) {
  driver_events events;
  if (events.begin(0, true)) GTEST_SKIP() << "there is a driver";
  EXPECT_FALSE(events.active());
  EXPECT_EQ(events.take_lost_count(), 0U);
  events.read(0, [](const unified_memory_record&) { FAIL(); });
}

}  // namespace
}  // namespace um::tracing
