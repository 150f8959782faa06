#include "backends/cuda/cupti_counters.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/errors.hpp"
#include "trace/cupti_library.hpp"
#include "um_allocators/check.hpp"

namespace um {
namespace {

// CUPTI calls plain functions without a user argument, so they fill global variables.
std::mutex counting;
unified_memory_counts counted;

// CUPTI gives its records to one reader of a process. If `umbench trace` has injected its library, that
// library is the reader, and this function of it passes the records on to another (trace/injection.cpp).
// nullptr without the library.
using record_reader = void (*)(const void* record);
using record_source = void (*)(record_reader, bool with_faults);
record_source record_source_of_trace() {
  static const auto found = []() -> record_source {
    const char* const path = std::getenv("CUDA_INJECTION64_PATH");
    void* const in = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return in == nullptr ? nullptr : reinterpret_cast<record_source>(dlsym(in, "umbench_trace_follow"));
  }();
  return found;
}

void count_record(const void* record) {
  const std::lock_guard guard(counting);
  add_record(counted, static_cast<const std::byte*>(record));
}

// Tells the library of the trace that this process counts, without taking its records.
void ignore_record(const void*) {}

void CUPTIAPI count_records_of_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                      std::size_t valid) {
  const std::lock_guard guard(counting);
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    add_record(counted, reinterpret_cast<const std::byte*>(record));
  }
  std::size_t dropped = 0;
  if (cupti().dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS) counted.dropped_records += dropped;
  std::free(buffer);
}

std::uint64_t records_so_far() {
  const std::lock_guard guard(counting);
  return counted.record_count;
}

unified_memory_counts take_counts() {
  const std::lock_guard guard(counting);
  return std::exchange(counted, {});
}

}  // namespace

unified_memory_counter::unified_memory_counter(bool with_faults) try : counts_faults_(with_faults) {
  check(cudaFree(nullptr));  // CUPTI needs a context
  int device = 0;
  check(cudaGetDevice(&device));
  static_cast<void>(driver_.begin());
  if (events_.begin(static_cast<std::uint32_t>(device), with_faults) || record_source_of_trace() != nullptr)
    return;
  require(cupti().register_callbacks(&give_activity_buffer, &count_records_of_buffer));
  configure_unified_memory_counters(static_cast<std::uint32_t>(device), with_faults);
  require(cupti().enable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
} catch (const unsupported& error) {
  throw unsupported(std::string("nothing is counted: ") + error.what());
}

unified_memory_counter::~unified_memory_counter() {
  if (record_source_of_trace() != nullptr) {
    record_source_of_trace()(nullptr, counts_faults_);
    return;
  }
  if (events_.active()) return;
  static_cast<void>(cupti().disable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
}

// A thread fetches records, since without it those of faults were lost: a read of 256 MiB gave 4000 to 8191
// records (driver 580).
void unified_memory_counter::start() {
  static_cast<void>(stop());
  if (!events_.active() && record_source_of_trace() != nullptr)
    return;  // the library of the trace fetches records
  collector_ = std::jthread([this](const std::stop_token& over) {
    const auto pause = std::chrono::microseconds(events_.active() ? 5000 : 200);
    while (!over.stop_requested()) {
      fetch_records(false);
      std::this_thread::sleep_for(pause);
    }
  });
}

unified_memory_counts unified_memory_counter::stop() {
  check(cudaDeviceSynchronize());
  collector_ = {};
  return collect_until_quiet();
}

void unified_memory_counter::fetch_records(bool all) {
  if (events_.active()) {
    if (all) events_.flush();
    events_.read(0, [](const tracing::unified_memory_record& record) { count_record(&record); });
  } else if (all) {
    require(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  } else {
    static_cast<void>(cupti().flush(0));
  }
}

// The driver delivers records some time after the work, so this flushes until no more come.
unified_memory_counts unified_memory_counter::collect_until_quiet() {
  constexpr auto pause = std::chrono::milliseconds(10);
  constexpr int quiet_enough = 4, max_flushes = 50;
  std::uint64_t seen = 0;
  for (int quiet = 0, flushes = 0; quiet < quiet_enough && flushes < max_flushes; ++flushes) {
    fetch_records(true);
    const std::uint64_t now = records_so_far();
    quiet = now == seen ? quiet + 1 : 0;
    seen = now;
    std::this_thread::sleep_for(pause);
  }
  if (record_source_of_trace() != nullptr)
    record_source_of_trace()(events_.active() ? &ignore_record : &count_record, counts_faults_);
  unified_memory_counts counts = take_counts();
  counts.counts_faults = counts_faults_;
  counts.dropped_records += events_.take_lost_count();
  const tracing::driver_sums now = driver_.read(), moved = now - sums_at_last_collect_;
  sums_at_last_collect_ = now;
  const byte_count told = counts.to_device.total + counts.to_host.total, all = moved.to_gpus + moved.to_host;
  if (all > told + told / 100) counts.lost_bytes = all - told;
  return counts;
}

}  // namespace um
