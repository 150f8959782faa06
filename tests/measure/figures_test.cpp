// The arithmetic of a calibration: from readings made of known costs the same costs must come out.
#include "measure/figures.hpp"

#include <gtest/gtest.h>

#include "core/figures.hpp"
#include "core/machine.hpp"
#include "measure/calibration_sizes.hpp"
#include "simulator/managed_memory.hpp"

namespace um::measure {
namespace {

constexpr std::uint64_t link = 50'000'000'000;

machine truth() {
  machine m;
  m.name = "truth";
  m.device_bytes_per_s = 4'000'000'000'000;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = link;
  m.link_both_bytes_per_s = 2 * link;
  m.launch_ns = 3000;
  m.copy_ns = 5000;
  m.uvm = {.interrupt_ns = 25000,
           .batch_ns = 6000,
           .fault_ns = 150,
           .batch_granules = 24,
           .service_ns = 3000,
           .chunk_ns = 3500,
           .first_visit_ns = 1000,
           .granule_ns = 1600,
           .issue_copy_ns = 400,
           .host_unmap_ns = 3800,
           .page_fault_ns = 5000,
           .migrate_copy_ns = 3300,
           .host_populate_ns = 60000,
           .host_clear_ns = 140000,
           .host_map_page_ns = 200,
           .host_fault_ns = 20000,
           .prefetch_call_ns = 25000,
           .prefetch_queued_ns = 100000,
           .prefetch_to_host_call_ns = 9000,
           .prefetch_block_ns = 500,
           .populate_ns = 1900,
           .discard_block_ns = 6000,
           .remote_read_bytes_per_s = link,
           .remote_write_bytes_per_s = link,
           .faults_of_page = 2,
           .sparse_granules = 17,
           .unmap_run_granules = 4};
  return m;
}

figures figures_from(const readings& all) {
  return measure::figures_from(all, truth().uvm);
}

constexpr auto reads = access_mode::read;
constexpr auto writes = access_mode::write;

double at_link(byte_count bytes) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(link);
}
double of(const managed_traffic& t) {
  return static_cast<double>(t.time);
}

// Managed memory of the simulator, in which everything fits.
struct room {
  managed_memory memory;
  range all;
  explicit room(byte_count bytes, const machine& on = truth())
      : memory(bytes, bytes / managed_block, on), all{0, bytes} {}
  room& on_device() {
    memory.place_on_host(all);
    memory.prefetch_to_device(all);
    return *this;
  }
  room& mapped() {
    on_device().memory.prefetch_to_host(all);
    return *this;
  }
  room& unmapped() {
    memory.place_on_host(all, true);
    return *this;
  }
};

double isolated(room from) {
  return of(from.memory.touch({0, 1}, reads, {.dependent = true}, true));
}
// Another granule of every block of which one is there.
double isolated_again() {
  room r(managed_block);
  r.memory.touch({0, 1}, reads, {.dependent = true}, true);
  return of(r.memory.touch({managed_block / 2, 1}, reads, {.dependent = true}, true));
}
double sparse_again(int blocks) {
  const byte_count bytes = static_cast<byte_count>(blocks) * managed_block;
  room r(bytes);
  r.memory.touch(r.all, writes, {.stride = 32, .sparse = true}, true);
  const range rest{managed_block / 2, bytes - managed_block / 2};
  return of(r.memory.touch(rest, writes, {.stride = 32, .sparse = true}, true));
}
double sparse(room from, unsigned stride, access_mode mode = reads) {
  return of(from.memory.touch(from.all, mode, {.stride = stride, .sparse = true}, true));
}
double cleared() {
  room r(populated_bytes);
  r.memory.touch(r.all, writes);
  r.memory.discard(r.all);
  return of(r.memory.prefetch_to_host(r.all));
}
double new_to_host() {
  room r(populated_bytes);
  r.memory.touch(r.all, writes);
  return of(r.memory.prefetch_to_host(r.all));
}
double touched_by_cpu() {
  room r = room(touched_bytes).on_device();
  managed_traffic t;
  for (byte_count at = 0; at < touched_bytes; at += managed_block)
    t += r.memory.touch_by_host({at, 1}, writes);
  return of(t);
}
double queued_calls() {
  room r = room(stream_bytes).mapped();
  managed_traffic t;
  for (byte_count at = 0; at < stream_bytes; at += queued_prefetch_bytes) {
    t += r.memory.prefetch_to_device({at, queued_prefetch_bytes}, true);
  }
  return of(t);
}
double discarded_to_device() {
  room r = room(GiB).on_device();
  r.memory.discard(r.all);
  return of(r.memory.prefetch_to_device(r.all));
}
double refilled() {
  room r = room(refilled_bytes).on_device();
  r.memory.discard(r.all);
  return of(r.memory.touch(r.all, writes, {}, true));
}

// What a machine of these costs would show, if it behaved as the simulator has it.
readings shown() {
  constexpr double blocks = 128;
  const auto to_device = [](byte_count bytes) {
    room r = room(bytes).mapped();
    return of(r.memory.prefetch_to_device(r.all));
  };
  const auto small_to_device = [] {
    room r = room(managed_block).mapped();
    return of(r.memory.prefetch_to_device({0, granule}));
  };
  const auto small_to_host = [] {
    room r = room(managed_block).mapped();
    r.memory.prefetch_to_device({0, granule});
    return of(r.memory.prefetch_to_host({0, granule}));
  };
  const auto to_host = [](byte_count bytes) {
    room r = room(bytes).on_device();
    return of(r.memory.prefetch_to_host(r.all));
  };
  const double first_touch = of(room(stream_bytes).memory.touch({0, stream_bytes}, writes, {}, true));
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
          {"batches_write", {blocks}},
          {"batches_read", {1.5 * blocks}},
          {"first_touch_write", {first_touch}},
          {"isolated_again", {isolated_again()}},
          {"isolated_mapped", {isolated(room(managed_block).mapped())}},
          {"isolated_idle", {isolated(room(managed_block).mapped()) + 25000}},
          {"isolated_cold", {isolated(room(managed_block).mapped()) + 1000}},
          {"cold_beyond_mapped", {1000}},
          {"granules_nowhere", {sparse(room(sparse_bytes), 1, writes)}},
          {"granules_unmapped", {sparse(room(sparse_bytes).unmapped(), 1)}},
          {"sparse_nowhere", {sparse(room(sparse_bytes), 2, writes)}},
          {"sparse_unmapped", {sparse(room(sparse_bytes).unmapped(), 2)}},
          {"sparse_mapped", {sparse(room(sparse_bytes).mapped(), 2)}},
          {"few_again", {sparse_again(few_blocks)}},
          {"many_again", {sparse_again(many_blocks)}},
          {"cpu_touches", {touched_by_cpu()}},
          {"refill", {refilled()}},
          {"prefetch_in_64KiB", {small_to_device()}},
          {"prefetch_in_1GiB", {to_device(GiB)}},
          {"prefetch_in_calls", {queued_calls()}},
          {"prefetch_in_new", {of(room(stream_bytes).memory.prefetch_to_device({0, stream_bytes}))}},
          {"prefetch_in_discarded", {discarded_to_device()}},
          {"prefetch_there_1GiB", {of(room(GiB).on_device().memory.prefetch_to_device({0, GiB}))}},
          {"prefetch_out_64KiB", {small_to_host()}},
          {"prefetch_out_again", {to_host(populated_bytes)}},
          {"out_new_beyond_again", {new_to_host() - to_host(populated_bytes)}},
          {"prefetch_out_1GiB", {to_host(GiB)}},
          {"prefetch_out_new", {new_to_host()}},
          {"prefetch_out_cleared", {cleared()}},
          {"out_alone", {3e6}},
          {"both_in", {2e7}},
          {"both_out", {1e7}},
          {"evict_alone", {2.8e7}},
          {"evict_beside_read", {4e7}},
          {"read_alone", {4.5e7}},
          {"read_beside_evict", {4.7e7}},
          {"discard_1GiB", {512 * 6000.0}},
          {"remote_read", {at_link(stream_bytes)}},
          {"remote_write", {at_link(stream_bytes)}},
          {"remote_read_again", {at_link(stream_bytes)}}};
}

// Within 7 %, for what the formulas leave out: the last copy of a call, small things beside large ones.
TEST(figures, are_those_of_the_simulated_machine_that_was_measured) {
  const figures found = figures_from(shown());
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
  const auto expect = [&](const char* name, nanoseconds value, double share = 0.07) {
    ASSERT_EQ(found.spread_of_figure.count(name), 1U) << name;
    EXPECT_NEAR(found.spread_of_figure.at(name).typical / static_cast<double>(value), 1, share) << name;
  };
  const machine m = truth();
  for (const char* name : {"uvm.interrupt_ns",      "uvm.batch_ns",           "uvm.fault_ns",
                           "uvm.service_ns",        "uvm.chunk_ns",           "uvm.granule_ns",
                           "uvm.first_visit_ns",    "uvm.issue_copy_ns",      "uvm.host_unmap_ns",
                           "uvm.page_fault_ns",     "uvm.migrate_copy_ns",    "uvm.host_populate_ns",
                           "uvm.host_clear_ns",     "uvm.host_map_page_ns",   "uvm.host_fault_ns",
                           "uvm.prefetch_call_ns",  "uvm.prefetch_queued_ns", "uvm.prefetch_to_host_call_ns",
                           "uvm.prefetch_block_ns", "uvm.populate_ns",        "uvm.discard_block_ns"}) {
    const auto row = std::ranges::find(um::figures(), name, &um::figure::name);
    ASSERT_NE(row, um::figures().end()) << name;
    expect(name, um::value_of(m, *row));
  }
  expect("uvm.batch_granules", 24);
  expect("uvm.read_batches_percent", 150);
  expect("uvm.prefetch_to_host_beside_percent", 30);
  expect("uvm.prefetch_to_host_beside_faults_percent", 70);
  expect("uvm.faults_beside_prefetch_percent", 95);
  expect("launch_ns", 3000);
  expect("copy_ns", 5000);
  expect("link_to_device_bytes_per_s", 50'000'000'000);
  expect("link_both_bytes_per_s", 100'000'000'000);
  EXPECT_EQ(found.spread_of_figure.at("uvm.host_chunk_bytes").typical, static_cast<double>(managed_block));
  EXPECT_EQ(found.spread_of_figure.at("uvm.access_counter_threshold").typical, 0);
  EXPECT_EQ(found.inferred, std::set<std::string>{"uvm.evict_ns"});
}

TEST(figures, are_rows_of_the_table_that_are_not_fitted) {
  for (const auto& [name, value] : figures_from(shown()).spread_of_figure) {
    const auto row = std::ranges::find(um::figures(), name, &um::figure::name);
    ASSERT_NE(row, um::figures().end()) << name;
    EXPECT_NE(row->source, um::figure_source::fitted) << name;
  }
}

TEST(figures, that_need_what_was_not_read_are_left_out_and_noted) {
  readings some = shown();
  some.erase("prefetch_there_1GiB");
  const figures found = figures_from(some);
  EXPECT_EQ(found.spread_of_figure.count("uvm.prefetch_block_ns"), 0U);
  EXPECT_EQ(found.spread_of_figure.count("uvm.host_map_page_ns"), 0U);
  EXPECT_EQ(found.spread_of_figure.count("uvm.migrate_copy_ns"), 1U);
  EXPECT_NE(found.notes.front().find("prefetch_there_1GiB"), std::string::npos);
}

TEST(figures, of_a_fault_are_kept_whole_or_not_at_all) {
  readings uncounted = shown();
  uncounted.erase("batches_write");
  const figures found = figures_from(uncounted);
  for (const char* name : {"uvm.batch_ns", "uvm.fault_ns", "uvm.batch_granules", "uvm.service_ns",
                           "uvm.granule_ns", "uvm.evict_ns"}) {
    EXPECT_EQ(found.spread_of_figure.count(name), 0U) << name;
  }
  EXPECT_EQ(found.spread_of_figure.count("uvm.host_map_page_ns"), 1U);
  EXPECT_TRUE(found.inferred.empty());
  EXPECT_NE(found.notes.back().find("could not be told apart"), std::string::npos);
}

// Counted on a stream of 128 blocks.
TEST(figures, of_a_batch_follow_from_the_batches_of_a_block) {
  const std::map<double, double> granules{{128, 24}, {230, 12}, {384, 6}, {640, 2}, {5000, 1}};
  for (const auto& [batches, expected] : granules) {
    readings counted = shown();
    counted["batches_write"] = {batches};
    const figures found = figures_from(counted);
    ASSERT_EQ(found.spread_of_figure.count("uvm.batch_granules"), 1U)
        << batches << ' ' << found.notes.front();
    EXPECT_EQ(found.spread_of_figure.at("uvm.batch_granules").typical, expected);
  }
}

TEST(figures, below_zero_become_zero_and_are_noted) {
  readings odd = shown();
  odd["sparse_mapped"] = {odd.at("sparse_unmapped").front() / 2};
  const figures found = figures_from(odd);
  EXPECT_EQ(found.spread_of_figure.at("uvm.host_unmap_ns").typical, 0);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_NE(found.notes.front().find("uvm.host_unmap_ns"), std::string::npos);
}

// Data that accesses over the link have brought to the device, and prefetches far below the link's rate.
TEST(figures, that_only_some_machines_have_are_left_to_be_estimated) {
  readings other = shown();
  other["remote_read_again"] = {at_link(stream_bytes) / 50};
  other["prefetch_in_1GiB"] = {2 * other.at("prefetch_in_1GiB").front()};
  const figures found = figures_from(other);
  for (const char* name : {"uvm.access_counter_threshold", "uvm.host_chunk_bytes", "uvm.page_copy_ns"}) {
    EXPECT_EQ(found.spread_of_figure.count(name), 0U) << name;
  }
}

TEST(figures, follow_from_medians) {
  readings disturbed = shown();
  for (auto& [name, values] : disturbed) {
    if (values.size() == 1 && name.find("batches") == std::string::npos) values.resize(12, values.front());
  }
  disturbed["discard_1GiB"][3] *= 5;
  disturbed["isolated_mapped"][7] *= 3;
  const figures calm = figures_from(shown()), found = figures_from(disturbed);
  for (const auto& [name, s] : found.spread_of_figure)
    EXPECT_EQ(s.typical, calm.spread_of_figure.at(name).typical) << name;
}

// Two readings at a time, now and then one of them slow, or both and what lies between them, too.
TEST(figures, of_differences_are_those_of_calm_moments) {
  readings pairs = shown();
  pairs["isolated_mapped"] = {20000, 20000, 35000, 20100, 31000, 31500};
  pairs["isolated_cold"] = {21000, 21040, 20900, 21060, 33000, 33900};
  pairs["cold_beyond_mapped"].clear();
  for (std::size_t i = 0; i < 6; ++i) {
    pairs["cold_beyond_mapped"].push_back(pairs["isolated_cold"][i] - pairs["isolated_mapped"][i]);
  }
  EXPECT_EQ(figures_from(pairs).spread_of_figure.at("uvm.first_visit_ns").typical, 1000);
}

// Where the prefetch to the host outlasts the other, it has its full speed for the rest.
TEST(figures, of_two_prefetches_at_once_do_not_depend_on_which_ends_first) {
  readings longer = shown();
  longer["out_alone"] = {1.2e7};
  longer["both_out"] = {2.6e7};  // 2e7 at 30 %, the other half at once
  EXPECT_NEAR(figures_from(longer).spread_of_figure.at("uvm.prefetch_to_host_beside_percent").typical, 30,
              1e-6);
}

TEST(figures, of_an_eviction_beside_faults_do_not_depend_on_which_ends_first) {
  readings longer = shown();
  longer["read_alone"] = {1.9e7};
  longer["read_beside_evict"] = {2e7};
  longer["evict_beside_read"] = {3.4e7};  // 2e7 at 70 %, 1.4e7 of 2.8e7 at once
  const figures found = figures_from(longer);
  EXPECT_NEAR(found.spread_of_figure.at("uvm.prefetch_to_host_beside_faults_percent").typical, 70, 1e-6);
  EXPECT_NEAR(found.spread_of_figure.at("uvm.faults_beside_prefetch_percent").typical, 95, 1e-6);
}

// What takes long is taken less often; its samples stand for the time around them.
TEST(figures, compare_samples_of_the_same_time) {
  readings drifting = shown();
  const double mapped = drifting.at("isolated_mapped").front();
  drifting["isolated_mapped"] = {mapped, mapped, 2 * mapped, 2 * mapped};
  drifting["isolated_idle"] = {mapped + 25000, 2 * mapped + 25000};
  const spread s = figures_from(drifting).spread_of_figure.at("uvm.interrupt_ns");
  EXPECT_NEAR(s.min, 25000, 1);
  EXPECT_LT(s.max, 25000 + mapped / 2);
}

TEST(figures, keep_how_far_samples_lie_apart) {
  readings shaky = shown();
  shaky["discard_1GiB"] = {512 * 5000.0, 512 * 6000.0, 512 * 9000.0};
  const spread s = figures_from(shaky).spread_of_figure.at("uvm.discard_block_ns");
  EXPECT_EQ(s.min, 5000);
  EXPECT_EQ(s.typical, 6000) << "the median";
  EXPECT_EQ(s.max, 9000);
  EXPECT_EQ(s.lower, 5750) << "of three samples and of what follows from their medians";
  EXPECT_EQ(s.upper, 6750);
}

}  // namespace
}  // namespace um::measure
