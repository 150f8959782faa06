// CUPTI's records, laid out by its own header, become lines.
#include "trace/translate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trace/lines.hpp"

namespace um::tracing {
namespace {

class translated : public ::testing::Test {
 protected:
  void add(const auto& r) { translate.add(reinterpret_cast<const CUpti_Activity&>(r)); }
  static CUpti_ActivityUnifiedMemoryCounter3 counter(std::uint32_t what, std::uint64_t value,
                                                     std::uint32_t flags) {
    CUpti_ActivityUnifiedMemoryCounter3 c{};
    c.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    c.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(what);
    c.value = value;
    c.start = 1'500'000;
    c.end = 1'600'000;
    c.address = base;
    c.flags = flags;
    return c;
  }
  void run_kernel() {
    CUpti_ActivityKernel10 k{};
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    k.start = 1'000'000;
    k.end = 2'000'000;
    k.name = "_Z3addPfm";
    add(k);
  }
  written out;
  recorder record{out.to(), 0};
  translator translate{record};
};

TEST_F(translated, counters_by_kind_and_cause) {
  run_kernel();
  const auto add_counter = [this](const CUpti_ActivityUnifiedMemoryCounter3& c) {
    tracing::add(record, unified_memory_record_at(&c));
  };
  add_counter(counter(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD, 4096,
                      CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE));
  add_counter(counter(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH, 8192,
                      CUPTI_ACTIVITY_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION));
  add_counter(counter(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT, 3,
                      CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE));
  add_counter(counter(CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT, 42,
                      CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ));
  record.finish(3'000'000);
  const json k = out.lines("kernel").at(0);
  EXPECT_EQ(k.at("in_demand"), json({{100, 1, 4096}}));
  EXPECT_EQ(k.at("out_eviction"), json({{100, 1, 8192}}));
  EXPECT_EQ(k.at("gpu_write_faults"), json({{100, 1, 3}}));
  EXPECT_EQ(k.at("waiting_ns"), 100'000);
  EXPECT_EQ(out.lines("name").at(0).at("name"), "add(float*, unsigned long)");
  EXPECT_EQ(out.lines("host").at(0).at("cpu_read_faults"), json({{100, 1, 1}}));
}

TEST_F(translated, kernels_without_times_are_lacking) {
  CUpti_ActivityKernel10 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.name = "k";
  add(k);
  record.finish(1);
  EXPECT_EQ(out.lines("lacking").size(), 1U);
}

TEST_F(translated, allocations_know_who_called) {
  translate.note_callers(base, {"program+0x1 main"});
  CUpti_ActivityMemory4 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  m.address = base;
  m.bytes = 4096;
  add(m);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  add(m);
  record.finish(1);
  EXPECT_EQ(out.lines("allocation").at(0).at("memory"), "managed");
  EXPECT_EQ(out.lines("allocation").at(0).at("called").size(), 1U);
  EXPECT_EQ(out.lines("free").at(0).at("address"), base);
}

TEST_F(translated, ranges_copies_and_memsets) {
  CUpti_ActivityMarker2 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MARKER;
  m.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  m.timestamp = 5;
  m.id = 1;
  m.name = "step";
  add(m);
  m.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  m.timestamp = 9;
  m.name = nullptr;
  add(m);
  CUpti_ActivityMemcpy6 c{};
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  c.bytes = 7;
  c.start = 1;
  c.end = 2;
  add(c);
  CUpti_ActivityMemset4 s{};
  s.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  s.bytes = 9;
  s.start = 1;
  s.end = 2;
  add(s);
  record.finish(10);
  EXPECT_EQ(out.lines("range").at(0).at("end_ns"), 9);
  EXPECT_EQ(out.lines("quiet").at(0).at("copies"),
            json({{"host_to_device", {1, 7, 1}}, {"memset", {1, 9, 1}}}));
}

// What prefetch, advice and discard calls say, from the parameters that CUPTI hands over.

TEST(calls, prefetch_to_a_gpu_and_to_the_host) {
  cuMemPrefetchAsync_v2_params p{};
  p.devPtr = 4096;
  p.count = 100;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  const auto to_gpu = hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2, &p);
  ASSERT_EQ(to_gpu.size(), 1U);
  EXPECT_EQ(to_gpu[0].call, "prefetch");
  EXPECT_EQ(to_gpu[0].address, 4096U);
  EXPECT_EQ(to_gpu[0].bytes, 100U);
  EXPECT_EQ(to_gpu[0].device, 1U);
  p.location.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2, &p).at(0).device, host);
  const cuMemPrefetchAsync_params old{4096, 100, CU_DEVICE_CPU, nullptr};
  EXPECT_EQ(hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync, &old).at(0).device, host);
}

TEST(calls, advice_has_its_name) {
  cuMemAdvise_v2_params p{};
  p.advice = CU_MEM_ADVISE_SET_READ_MOSTLY;
  EXPECT_EQ(hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemAdvise_v2, &p).at(0).call, "read_mostly");
}

TEST(calls, batches_have_a_hint_for_each_range) {
  CUdeviceptr at[] = {1, 2, 3};
  std::size_t bytes[] = {10, 20, 30}, from[] = {0, 2};
  CUmemLocation where[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  const cuMemPrefetchBatchAsync_params p{at, bytes, 3, where, from, 2, 0, nullptr};
  const auto all = hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync, &p);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].device, 0U);
  EXPECT_EQ(all[2].device, host);
  EXPECT_EQ(all[2].bytes, 30U);
}

TEST(calls, every_watched_call_but_the_allocation_is_understood) {
  EXPECT_EQ(std::ranges::count(watched_calls(), CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged), 1);
  EXPECT_TRUE(hints_of(CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, nullptr).empty());
}

}  // namespace
}  // namespace um::tracing
