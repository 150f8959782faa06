// The library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH). It writes to the file that
// UMBENCH_TRACE_OUT names, and does nothing without it. With UMBENCH_TRACE_TIMES it only times kernels.
// UMBENCH_TRACE_SHARE is the share of time that counting may take (default 0.03); from 1 on counting never
// pauses.
#include <cuda.h>
#include <cupti.h>

#include <chrono>
#include <cstdlib>
#include <exception>

#include "core/errors.hpp"
#include "trace/cupti_library.hpp"
#include "trace/line_writer.hpp"
#include "trace/session.hpp"
#include "trace/translate.hpp"

namespace um::tracing {

session* running = nullptr;

nanoseconds now() {
  std::uint64_t time = 0;
  static_cast<void>(cupti().timestamp(&time));
  return static_cast<nanoseconds>(time);
}

bool belongs_to_this_process() {
  return running != nullptr && running->owner == getpid() && !running->ended;
}

void note_missing(const std::string& what) {
  running->writer.post([what] { running->record.note_missing(what); });
}

namespace {

constexpr double usual_share = 0.03;

// --- records ---

void read_buffer(std::uint8_t* buffer, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER)
      take_unified_memory_record(unified_memory_record_at(record));
    else
      running->translate.add(*record);
  }
  std::size_t dropped = 0;
  if (cupti().dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped > 0)
    running->record.add_lost_records(dropped);
  std::free(buffer);
}

void CUPTIAPI receive_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (valid == 0) return std::free(buffer);
  running->records_came = true;
  running->writer.post([buffer, valid] { read_buffer(buffer, valid); });
}

// --- calls of the program ---

const std::vector<std::string>& callers_of_stack(const call_stack& stack) {
  const auto [known, is_new] = running->callers.try_emplace(stack);
  if (is_new) known->second = callers_of(stack);
  return known->second;
}

void on_driver_call(CUpti_CallbackId call, const CUpti_CallbackData& data) {
  if (call == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged && !running->has_managed_memory.exchange(true))
    running->wake_fetcher.notify_one();
  if (data.callbackSite == CUPTI_API_ENTER) {
    *data.correlationData = static_cast<std::uint64_t>(now());
    return;
  }
  const bool failed = data.functionReturnValue != nullptr &&
                      *static_cast<const CUresult*>(data.functionReturnValue) != CUDA_SUCCESS;
  if (failed) return;
  if (call == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged) {
    const std::uint64_t at = *static_cast<const cuMemAllocManaged_params*>(data.functionParams)->dptr;
    running->writer.post(
        [at, stack = stack_here()] { running->translate.note_callers(at, callers_of_stack(stack)); });
    return;
  }
  std::vector<hint> hints = hints_of(call, data.functionParams);
  for (hint& h : hints) {
    h.at = static_cast<nanoseconds>(*data.correlationData);
    h.until = now();
  }
  running->writer.post([hints = std::move(hints), stack = stack_here()]() mutable {
    for (hint& h : hints) {
      h.callers = callers_of_stack(stack);
      running->record.add(h);
    }
  });
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId call, const void* data) try {
  if (!belongs_to_this_process()) return;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    on_driver_call(call, *static_cast<const CUpti_CallbackData*>(data));
  } else if (domain == CUPTI_CB_DOMAIN_RESOURCE && call == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) {
    std::uint32_t device = 0;
    if (cupti().device_of(static_cast<const CUpti_ResourceData*>(data)->context, &device) == CUPTI_SUCCESS)
      start_counting_on(device);
  }
} catch (const std::exception&) {  // no exception may pass through the driver
}

// --- fetching ---

// Returns the time until the next fetch. The driver keeps only a few thousand records of Unified Memory for
// CUPTI and reports no losses, so they are fetched often while they come. A fetch takes time of the program's
// threads, so it is rarer otherwise. The driver's own queue is longer.
std::chrono::microseconds time_until_next_fetch(int calm_rounds) {
  constexpr std::chrono::microseconds while_they_come(200), else_(2'000), by_events(5'000),
      while_none_can(20'000);
  constexpr int rounds_of_calm = 50;
  if (!running->has_managed_memory || !running->counts) return while_none_can;
  if (running->events.active()) return by_events;
  return calm_rounds < rounds_of_calm ? while_they_come : else_;
}

void post_write(nanoseconds time) {
  if (running->write_is_pending.exchange(true)) return;
  running->writer.post([time] {
    running->record.write_settled(time);
    running->write_is_pending = false;
  });
}

void fetch_until_end() {
  constexpr nanoseconds between_writes = 50'000'000;
  nanoseconds written = now();
  for (int calm = 0; !running->ended;) {
    running->records_came = false;
    static_cast<void>(
        cupti().flush(0));  // a forced flush would return kernels that still run, without their times
    calm = running->records_came ? 0 : calm + 1;
    const nanoseconds time = now();
    fetch_events(time - written > between_writes);
    if (time - written > between_writes) {
      post_write(time);
      written = time;
    }
    pause_or_resume_by_budget(time);
    std::unique_lock lock(running->sleep_mutex);
    running->wake_fetcher.wait_for(lock, time_until_next_fetch(calm));
  }
}

// Flushes repeatedly, since the driver delivers its last records some time after the work.
void finish_trace() {
  if (!belongs_to_this_process()) return;
  running->ended = true;
  if (running->fetcher.joinable()) running->fetcher.join();
  constexpr int last_flushes = 10;
  constexpr auto pause = std::chrono::milliseconds(5);
  for (int i = 0; i < last_flushes; ++i) {
    static_cast<void>(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::this_thread::sleep_for(pause);
  }
  end_counting();
  const std::lock_guard lock(running->counting_mutex);
  running->writer.stop();
  const driver_sums sums = running->driver.read();
  running->record.finish(now(), running->driver.counts() ? &sums : nullptr);
}

// --- beginning ---

void enable(CUpti_ActivityKind kind, const char* name) {
  try {
    require(cupti().enable(kind));
  } catch (const unsupported& error) {
    note_missing(std::string(name) + ": " + error.what());
  }
}

void subscribe_to_calls() {
  CUpti_SubscriberHandle subscriber{};
  try {
    require(cupti().subscribe(&subscriber, &on_callback, nullptr));
    require(cupti().enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
                                    CUPTI_CBID_RESOURCE_CONTEXT_CREATED));
    for (const CUpti_CallbackId call : watched_calls()) {
      static_cast<void>(cupti().enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call));
    }
  } catch (const unsupported& error) {
    note_missing(std::string("Unified Memory, prefetch and advice calls: ") + error.what());
  }
}

void begin_trace(const std::string& path) {
  const output file(path);
  if (!file.is_open()) return;
  using std::chrono::system_clock;
  const auto wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
  try {
    static_cast<void>(cupti());
  } catch (const unsupported& error) {
    file.write(environment_line(0, wall) + '{' + kind_field("lacking") +
               field("what", std::string("everything: ") + error.what()) + "}\n");
    return;
  }
  const nanoseconds start = now();
  file.write(environment_line(start, wall));
  const bool times_only = std::getenv("UMBENCH_TRACE_TIMES") != nullptr;
  const char* const share = std::getenv("UMBENCH_TRACE_SHARE");
  running =
      new session(file, start, times_only, share != nullptr ? std::strtod(share, nullptr) : usual_share);
  try {
    require(cupti().register_callbacks(&give_activity_buffer, &receive_buffer));
  } catch (const unsupported& error) {
    running->record.note_missing(std::string("everything: ") + error.what());
    return running->record.finish(start);
  }
  enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
  if (!times_only) {
    subscribe_to_calls();
    enable(CUPTI_ACTIVITY_KIND_MEMCPY, "copies");
    enable(CUPTI_ACTIVITY_KIND_MEMSET, "memsets");
    enable(CUPTI_ACTIVITY_KIND_MEMORY2, "allocations");
    enable(CUPTI_ACTIVITY_KIND_MARKER, "named ranges (NVTX)");
  }
  running->writer.start();
  running->fetcher = std::thread(fetch_until_end);
  std::atexit(finish_trace);
}

}  // namespace
}  // namespace um::tracing

// The CUDA driver calls this once during its initialisation. Errors do not stop the program.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("UMBENCH_TRACE_OUT");
  if (path == nullptr || um::tracing::running != nullptr) return 1;
  try {
    um::tracing::begin_trace(path);
  } catch (const std::exception&) {
  }
  return 1;
}

// For a program that also counts by CUPTI, which passes records to one reader only: passes each record to
// `each`, too.
extern "C" __attribute__((visibility("default"))) void umbench_trace_follow(void (*each)(const void* record),
                                                                            bool with_faults) {
  if (um::tracing::belongs_to_this_process()) um::tracing::set_follower(each, with_faults);
}
