// What prefetch, advice and discard calls say, from the parameters that CUPTI hands over.
#include <gtest/gtest.h>

#include <algorithm>

#include "trace/translate.hpp"

namespace um::tracing {
namespace {

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
