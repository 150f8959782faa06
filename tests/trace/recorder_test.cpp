// What becomes of a program's records: who moved which block is found, sums stay exact, the file stays small.
#include "trace/recorder.hpp"

#include <gtest/gtest.h>

#include "tests/trace/lines.hpp"
#include "trace/output.hpp"
#include "trace/worker.hpp"

namespace um::tracing {
namespace {

constexpr nanoseconds ms = 1'000'000, second = 1'000 * ms;

class recorded : public ::testing::Test {
 protected:
  migration to_gpu(nanoseconds at, std::uint64_t address, std::uint64_t bytes, cause why = cause::demand) {
    return {at, at + 10, address, bytes, host, 0, why};
  }
  migration to_host(nanoseconds at, std::uint64_t address, std::uint64_t bytes, cause why) {
    return {at, at + 10, address, bytes, 0, host, why};
  }
  written out;
  recorder record{out.to(), 0};
};

TEST_F(recorded, migrations_belong_to_the_launch_that_ran) {
  record.add(kernel{1 * ms, 2 * ms, 0, 7, "first"});
  record.add(kernel{3 * ms, 4 * ms, 0, 7, "second"});
  record.add(to_gpu(3 * ms + 5, base, 4096));
  record.add(to_gpu(1 * ms + 5, base, 65536));
  record.finish(second);
  const auto kernels = out.lines("kernel");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].at("in_demand"), json({{100, 1, 65536}}));
  EXPECT_EQ(kernels[1].at("in_demand"), json({{100, 1, 4096}}));
  EXPECT_EQ(kernels[1].at("granules"), json({{100, 1, 1}}));
}

TEST_F(recorded, launches_of_a_name_are_numbered_on_each_gpu) {
  nanoseconds i = 0;
  for (const std::uint32_t gpu : {0U, 1U, 0U}) {
    const nanoseconds at = (1 + i++) * ms;
    record.add(kernel{at, at + 1000, gpu, 7, "step"});
    record.add(migration{at + 5, at + 6, base, 4096, host, gpu, cause::demand});
  }
  record.finish(second);
  std::vector<std::pair<int, int>> seen;
  for (const auto& k : out.lines("kernel")) seen.emplace_back(k.at("gpu"), k.at("launch"));
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}}));
}

TEST_F(recorded, a_migration_across_blocks_is_split_exactly) {
  record.add(kernel{1 * ms, 2 * ms, 0, 7, "k"});
  record.add(to_gpu(1 * ms + 1, base + block_bytes - 4096, 8192));
  record.finish(second);
  EXPECT_EQ(out.lines("kernel")[0].at("in_demand"), json({{100, 2, 8192}}));
  EXPECT_EQ(out.lines("kernel")[0].at("granules"), json({{100, 1, 0x80000000U}, {101, 1, 1}}));
}

TEST_F(recorded, a_thousand_faults_of_a_stream_are_one_run) {
  record.add(kernel{1 * ms, 20 * ms, 0, 7, "stream"});
  for (std::uint64_t i = 0; i < 32 * 1024; ++i) {
    record.add(to_gpu(ms + static_cast<nanoseconds>(i) * 100, base + i * 65536, 65536, cause::tree));
    record.add(gpu_fault{ms + static_cast<nanoseconds>(i) * 100, ms + static_cast<nanoseconds>(i) * 100 + 50,
                         base + i * 65536, 1, 0, access::read});
  }
  record.finish(second);
  ASSERT_EQ(out.lines("kernel").size(), 1U);
  const json k = out.lines("kernel")[0];
  EXPECT_EQ(k.at("in_tree"), json({{100, 1024, 1024 * block_bytes}}));
  EXPECT_EQ(k.at("gpu_read_faults"), json({{100, 1024, 32 * 1024}}));
  EXPECT_EQ(k.at("batches"), 32 * 1024);
  EXPECT_EQ(k.at("waiting_ns"), 32 * 1024 * 50);
  EXPECT_EQ(k.at("records"), 2 * 32 * 1024);
  EXPECT_FALSE(k.contains("granules"));
  EXPECT_LT(out.text.size(), 1000U);
}

TEST_F(recorded, neighbours_that_moved_whole_share_a_run_with_the_exact_sum) {
  record.add(kernel{1 * ms, 20 * ms, 0, 7, "k"});
  for (std::uint64_t b = 0; b < 4; ++b) {
    const std::uint64_t asked = (b + 1) * 4096, rest = (b == 3 ? block_bytes / 2 : block_bytes) - asked;
    record.add(to_gpu(2 * ms, base + b * block_bytes, asked, cause::demand));
    record.add(to_gpu(2 * ms, base + b * block_bytes + asked, rest, cause::tree));
  }
  record.finish(second);
  const json k = out.lines("kernel").at(0);
  EXPECT_EQ(k.at("in_demand"), json({{100, 3, 6 * 4096}, {103, 1, 4 * 4096}}));
  EXPECT_EQ(k.at("in_tree"),
            json({{100, 3, 3 * block_bytes - 6 * 4096}, {103, 1, block_bytes / 2 - 4 * 4096}}));
}

TEST(recorded_for_long, gets_no_endless_file) {
  written out;
  writer_options to = out.to();
  to.max_bytes = 100'000;
  recorder record(to, 0);
  for (nanoseconds i = 0; i < 100; ++i) {
    record.add(kernel{(2 * i + 1) * ms, (2 * i + 2) * ms, 0, 7, "k"});
    for (std::uint64_t b = 0; b < 1000; ++b)
      record.add(migration{(2 * i + 1) * ms + 5, (2 * i + 1) * ms + 6, base + 2 * b * block_bytes, 4096, host,
                           0, cause::demand});
  }
  record.finish(second);
  EXPECT_LT(out.text.size(), 200'000U);
  EXPECT_EQ(out.lines("lacking").size(), 1U);
}

TEST_F(recorded, faults_of_a_batch_wait_once) {
  record.add(kernel{1 * ms, 2 * ms, 0, 7, "k"});
  record.add(gpu_fault{ms + 100, ms + 900, base, 3, 0, access::write});
  record.add(gpu_fault{ms + 200, ms + 900, base + 4096, 1, 0, access::atomic});
  record.finish(second);
  const json k = out.lines("kernel")[0];
  EXPECT_EQ(k.at("waiting_ns"), 800);
  EXPECT_EQ(k.at("batches"), 1);
  EXPECT_EQ(k.at("gpu_write_faults"), json({{100, 1, 4}}));
}

TEST_F(recorded, the_host_has_lines_between_launches) {
  for (nanoseconds round = 0; round < 2; ++round) {
    const nanoseconds at = (1 + 4 * round) * ms;
    record.add(kernel{at, at + ms, 0, 7, "k"});
    record.add(to_gpu(at + 5, base, 65536));
    record.add(cpu_fault{at + 2 * ms, base + 5000, 42, access::write});
    record.add(to_host(at + 2 * ms, base, 65536, cause::demand));
  }
  record.finish(second);
  const auto hosts = out.lines("host");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].at("cpu_write_faults"), json({{100, 1, 1}}));
  EXPECT_EQ(hosts[1].at("out_demand"), json({{100, 1, 65536}}));
  EXPECT_LT(hosts[0].at("begin_ns"), out.lines("kernel")[1].at("begin_ns"));
  EXPECT_EQ(out.lines("name").at(hosts[0].at("place").get<std::size_t>()).at("name"), "program+42");
}

TEST_F(recorded, prefetches_and_evictions_are_told_apart) {
  record.add(to_gpu(1 * ms, base, block_bytes, cause::user));
  record.add(kernel{2 * ms, 3 * ms, 0, 7, "k"});
  record.add(to_host(2 * ms + 5, base, block_bytes, cause::eviction));
  record.add(to_host(5 * ms, base, block_bytes, cause::user));
  record.finish(second);
  ASSERT_EQ(out.lines("prefetched").size(), 2U);
  EXPECT_EQ(out.lines("prefetched")[0].at("in_user"), json({{100, 1, block_bytes}}));
  EXPECT_EQ(out.lines("prefetched")[1].at("out_user"), json({{100, 1, block_bytes}}));
  EXPECT_EQ(out.lines("kernel")[0].at("out_eviction"), json({{100, 1, block_bytes}}));
}

TEST_F(recorded, launches_that_move_nothing_share_a_line_each_second) {
  for (nanoseconds i = 0; i < 1000; ++i) record.add(kernel{i * ms + 1, i * ms + 11, 0, 7, "quick"});
  record.add(copy{5 * ms, 6 * ms, 4096, 0, "host_to_device"});
  record.write_settled(10 * second);
  record.finish(20 * second);
  const auto quiet = out.lines("quiet");
  ASSERT_EQ(quiet.size(), 1U);
  EXPECT_EQ(quiet[0].at("kernels"), json({{0, 1000, 10000}}));
  EXPECT_EQ(quiet[0].at("copies"), json({{"host_to_device", {1, 4096, 1 * ms}}}));
}

TEST_F(recorded, a_kernel_that_still_runs_gets_its_events_when_it_ends) {
  record.add(to_gpu(1 * ms, base, 65536));
  record.write_settled(5 * second);
  EXPECT_TRUE(out.lines("kernel").empty());
  record.add(kernel{ms / 2, 6 * second, 0, 7, "long"});
  record.write_settled(7 * second);
  ASSERT_EQ(out.lines("kernel").size(), 1U);
  EXPECT_EQ(out.lines("kernel")[0].at("in_demand"), json({{100, 1, 65536}}));
}

TEST_F(recorded, a_long_kernel_with_many_faults_keeps_its_sums) {
  constexpr std::uint64_t count = 450'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    record.add(to_gpu(ms + static_cast<nanoseconds>(i), base + (i % 64) * block_bytes, 4096));
    if (i % 50'000 == 0) record.write_settled(5 * second);
  }
  record.add(kernel{ms / 2, 6 * second, 0, 7, "long"});
  record.finish(7 * second);
  std::uint64_t bytes = 0;
  const json k = out.lines("kernel").at(0);
  for (const auto& run : k.at("in_demand")) bytes += run[2].get<std::uint64_t>();
  EXPECT_EQ(bytes, count * 4096);
  EXPECT_EQ(out.lines("lacking").size(), 1U);
}

TEST_F(recorded, timed_launches_have_a_line_each) {
  for (nanoseconds i = 0; i < 3; ++i) record.add_timed(kernel{i * ms, i * ms + 5, 0, 7, "k"});
  record.finish(second);
  ASSERT_EQ(out.lines("timed").size(), 3U);
  EXPECT_EQ(out.lines("timed")[2].at("launch"), 2);
  EXPECT_EQ(out.lines("timed")[2].at("begin_ns"), 2 * ms);
}

TEST_F(recorded, what_no_kernel_explains_is_kept) {
  record.add(to_gpu(1 * ms, base, 65536));
  record.finish(second);
  EXPECT_EQ(out.lines("other")[0].at("in_demand"), json({{100, 1, 65536}}));
}

TEST_F(recorded, drained_lines_are_whole_and_the_last_line_says_what_was_lost) {
  record.add(allocation{1, base, 4096, 0, "managed", {"program+0x10 main", "libc.so+0x5"}});
  record.add(hint{2, 3, "prefetch", base, 4096, host, {"program+0x10 main"}});
  record.add(range{1, 9, "step \"1\"\n"});
  record.write_settled(second);
  EXPECT_EQ(out.text.back(), '\n');
  EXPECT_EQ(out.lines("allocation")[0].at("called"), json({0, 1}));
  EXPECT_EQ(out.lines("hint")[0].at("device"), "host");
  EXPECT_EQ(out.lines("name")[2].at("name"), "step \"1\"\n");
  record.add_lost_records(3);
  record.note_missing("sight");
  record.note_missing("sight");
  record.finish(2 * second);
  EXPECT_EQ(out.lines("lacking").size(), 1U);
  EXPECT_EQ(out.lines("end")[0].at("lost_records"), 3);
}

TEST_F(recorded, memory_of_a_peer_is_no_memory_of_the_host) {
  record.add(kernel{1 * ms, 2 * ms, 1, 7, "k"});
  record.add(migration{ms + 1, ms + 2, base, 65536, 0, 1, cause::demand});
  record.finish(second);
  EXPECT_EQ(out.lines("kernel")[0].at("in_peer"), json({{100, 1, 65536}}));
}

TEST_F(recorded, launches_in_a_pause_are_unseen_and_the_driver_says_what_moved) {
  record.pause(10 * ms, {.to_gpus = 100, .to_host = 50, .cpu_faults = 3, .gpu_faults = 7});
  record.resume(20 * ms, {.to_gpus = 600, .to_host = 50, .cpu_faults = 4, .gpu_faults = 9});
  for (const nanoseconds at : {2 * ms, 9 * ms, 15 * ms, 25 * ms})
    record.add(kernel{at, at + 2 * ms, 0, 7, "k"});
  record.add(to_gpu(25 * ms + 5, base, 4096));
  const driver_sums sums{.to_gpus = 700, .to_host = 50, .cpu_faults = 4, .gpu_faults = 9};
  record.finish(second, &sums);
  const json pause = out.lines("uncounted").at(0);
  EXPECT_EQ(pause.at("begin_ns"), 10 * ms);
  EXPECT_EQ(pause.at("to_gpus"), 500);
  EXPECT_EQ(pause.at("gpu_faults"), 2);
  EXPECT_EQ(out.lines("quiet").at(0).at("kernels"), json({{0, 1, 2 * ms}}));
  EXPECT_EQ(out.lines("unseen").at(0).at("kernels"), json({{0, 2, 4 * ms}}));
  EXPECT_EQ(out.lines("kernel").size(), 1U);
  EXPECT_EQ(out.lines("end").at(0).at("to_gpus"), 700);
}

TEST_F(recorded, a_pause_that_lasts_to_the_end_is_told) {
  record.pause(10 * ms, {});
  record.finish(second);
  EXPECT_EQ(out.lines("uncounted").at(0).at("end_ns"), second);
  EXPECT_FALSE(out.lines("end").at(0).contains("to_gpus"));
}

// A program of which each second of counting costs half a second.
TEST(counting_budget, keeps_to_a_share_of_the_time_and_counts_short_programs_whole) {
  counting_budget budget(0, 0.03);
  nanoseconds counted = 0, first_pause = 0;
  int switches = 0;
  bool counts = true;
  constexpr nanoseconds minutes = 10 * 60 * second;
  for (nanoseconds at = 0; at < minutes; at += ms) {
    const bool wanted = budget.may_count(at);
    switches += wanted != counts;
    counts = wanted;
    if (counts) {
      budget.spend(ms / 2);
      counted += ms;
    } else if (first_pause == 0) {
      first_pause = at;
    }
  }
  EXPECT_GT(first_pause, 2 * second);
  EXPECT_LE(counted / 2, minutes * 3 / 100 + second);
  EXPECT_GT(counted / 2, minutes * 28 / 1000);
  EXPECT_LT(switches, 200);
}

TEST(counting_budget, never_pauses_with_the_whole_share) {
  counting_budget budget(0, 1);
  budget.spend(100 * second);
  EXPECT_TRUE(budget.may_count(1));
}

TEST(worker, does_all_that_was_posted_in_order) {
  worker one;
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) one.post([&, i] { done.push_back(i); });
  one.start();
  one.post([] { throw std::runtime_error("a gap"); });
  one.post([&] { done.push_back(3); });
  one.wait();
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3}));
  for (int i = 4; i < 100; ++i) one.post([&, i] { done.push_back(i); });
  one.stop();
  EXPECT_EQ(done.size(), 100U);
}

TEST(driver_sums, tell_how_much_was_lost_of_enough) {
  constexpr std::uint64_t gib = 1 << 30;
  const driver_sums moved{.to_gpus = 3 * gib, .to_host = gib};
  EXPECT_EQ(lost_percent(moved, {.to_gpus = 2 * gib, .to_host = gib}), 25U);
  EXPECT_EQ(lost_percent(moved, moved), 0U);
  EXPECT_EQ(lost_percent(moved, {.to_gpus = 5 * gib}), 0U);
  EXPECT_EQ(lost_percent({.to_gpus = 1 << 20}, {}), 0U);
}

TEST(driver_counters, count_nothing_without_a_driver) {
  driver_counters counters;
  if (counters.begin()) GTEST_SKIP() << "this process has a CUDA context";
  EXPECT_FALSE(counters.counts());
  EXPECT_EQ(counters.read().to_gpus, 0U);
}

TEST(environment, is_one_line_of_json) {
  const std::string line = environment_line(5, 6);
  EXPECT_EQ(line.back(), '\n');
  const json value = json::parse(line);
  EXPECT_EQ(value.at("kind"), "environment");
  EXPECT_EQ(value.at("schema"), schema);
  EXPECT_TRUE(value.at("program").is_array());
}

}  // namespace
}  // namespace um::tracing
