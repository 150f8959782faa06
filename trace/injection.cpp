// The library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH). It writes to the file that
// UMBENCH_TRACE_OUT names, and does nothing without it. With UMBENCH_TRACE_TIMES it times kernels alone.
// UMBENCH_TRACE_SHARE: how much of the time counting may take (0.03); from 1 on it never pauses.
//
// Threads: the program's own call on_callback, CUPTI's call take_buffer, and one of ours, the collector,
// fetches records and writes the file. `guard` is held for the recorder and all that is fed to it;
// `switching` while counting begins or pauses. Neither is held while CUPTI is asked to hand records out.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "core/errors.hpp"
#include "trace/budget.hpp"
#include "trace/calls.hpp"
#include "trace/cupti_library.hpp"
#include "trace/driver_sums.hpp"
#include "trace/output.hpp"
#include "trace/places.hpp"
#include "trace/recorder.hpp"
#include "trace/text.hpp"
#include "trace/translate.hpp"

namespace um::tracing {
namespace {

nanoseconds now() {
  std::uint64_t time = 0;
  static_cast<void>(cupti().timestamp(&time));
  return static_cast<nanoseconds>(time);
}

using follower = void (*)(const void* record);

// All that lives while the program does. Made once and never destroyed: CUPTI's threads may outlive static
// objects.
struct session {
  session(output to, nanoseconds start, bool only_times, double share)
      : file(to),
        record({[to](std::string_view text) { to.write(text); }, place_of}, start),
        translate(record, only_times),
        budget(start, share) {}

  std::mutex guard;  // of all until the next mutex
  output file;
  recorder record;
  translator translate;
  counting_budget budget;
  std::map<call_stack, std::vector<std::string>> callers;  // each stack is named once
  driver_sums told;                                        // bytes of CUPTI's records
  follower follow = nullptr;
  nanoseconds followed_since = 0;

  std::mutex switching;  // of all until the next mutex
  std::set<std::uint32_t> devices;
  driver_counters driver;
  std::atomic<bool> counts = false;
  bool may_count = true;
  driver_sums driver_before, told_before;  // when counting last began

  std::mutex sleep;
  std::condition_variable wake;
  std::thread collector;
  std::atomic<bool> over = false;
  std::atomic<bool> busy = false;     // Unified Memory records came with the last flush
  std::atomic<bool> managed = false;  // the program has managed memory
  std::atomic<bool> with_faults = true;
  pid_t owner = getpid();
};
session* running = nullptr;

bool is_ours() {
  return running != nullptr && running->owner == getpid() && !running->over;
}

using counter_record = CUpti_ActivityUnifiedMemoryCounter3;

// What counting one thing takes, by programs with and without a trace on an H100 (driver 580).
nanoseconds cost_of(const counter_record& counter) {
  constexpr nanoseconds of_bytes = 1'000, of_any_beside_faults = 5'000, of_cpu_fault = 26'000;
  if (counter.counterKind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT)
    return of_cpu_fault;
  return running->with_faults ? of_any_beside_faults : of_bytes;
}

// With `guard` held.
void take(const counter_record& counter) {
  running->busy = running->managed = true;
  running->budget.spend(cost_of(counter));
  if (counter.counterKind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD)
    running->told.to_gpus += counter.value;
  if (counter.counterKind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH)
    running->told.to_host += counter.value;
  if (running->follow != nullptr) running->follow(&counter);
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(running->guard);
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER)
      take(*reinterpret_cast<const counter_record*>(record));
    running->translate.add(*record);
  }
  std::size_t dropped = 0;
  if (cupti().dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped > 0) running->record.lose(dropped);
  std::free(buffer);
}

// --- what the program asks for ---

void watch_call(CUpti_CallbackId call, const CUpti_CallbackData& data) {
  if (call == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged && !running->managed.exchange(true))
    running->wake.notify_one();
  if (data.callbackSite == CUPTI_API_ENTER) {
    *data.correlationData = static_cast<std::uint64_t>(now());
    return;
  }
  const bool failed = data.functionReturnValue != nullptr &&
                      *static_cast<const CUresult*>(data.functionReturnValue) != CUDA_SUCCESS;
  if (failed) return;
  const nanoseconds until = now();
  const call_stack stack = stack_here();
  const std::lock_guard lock(running->guard);
  const auto [known, is_new] = running->callers.try_emplace(stack);
  if (is_new) known->second = callers_of(stack);
  const std::vector<std::string>& called = known->second;
  if (call == CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged) {
    running->translate.called_from(*static_cast<const cuMemAllocManaged_params*>(data.functionParams)->dptr,
                                   called);
    return;
  }
  for (hint& h : hints_of(call, data.functionParams)) {
    h.at = static_cast<nanoseconds>(*data.correlationData);
    h.until = until;
    h.called = called;
    running->record.add(h);
  }
}

// --- devices ---

template <class Function>
Function driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(driver, name));
}

std::string gpu_line(std::uint32_t device) {
  char name[256] = "";
  std::size_t bytes = 0;
  int concurrent = -1, pageable = -1;
  const auto get_name = driver_function<decltype(&cuDeviceGetName)>("cuDeviceGetName");
  const auto get_bytes = driver_function<CUresult (*)(std::size_t*, CUdevice)>("cuDeviceTotalMem_v2");
  const auto get = driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  const auto number = static_cast<CUdevice>(device);
  if (get_name != nullptr) static_cast<void>(get_name(name, sizeof(name), number));
  if (get_bytes != nullptr) static_cast<void>(get_bytes(&bytes, number));
  if (get != nullptr) {
    static_cast<void>(get(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, number));
    static_cast<void>(get(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, number));
  }
  return '{' + kind("gpu") + field("gpu", device) + field("name", name) + field("bytes", bytes) +
         field("concurrent_managed_access", concurrent) + field("pageable_memory_access", pageable) + "}\n";
}

// --- counting Unified Memory ---

void lack(const std::string& what) {
  const std::lock_guard lock(running->guard);
  running->record.lack(what);
}

void configure_counters(std::uint32_t device) {
  configure_unified_memory_counters(device, running->with_faults);
  if (!configure_peer_counter(device) && running->devices.size() > 1) lack("bytes between GPUs");
}

// With `switching` held.
void begin_counting() {
  if (running->counts || !running->may_count || running->devices.empty()) return;
  try {
    for (const std::uint32_t device : running->devices) configure_counters(device);
    require(cupti().enable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
  } catch (const unsupported& error) {
    running->may_count = false;
    return lack(std::string("Unified Memory: ") + error.what());
  }
  running->counts = true;
  const std::lock_guard lock(running->guard);
  running->driver_before = running->driver.read();
  running->told_before = running->told;
  running->record.resume(now(), running->driver_before);
}

// CUPTI loses records without saying so where a program faults a lot; the driver's sums tell. Of bytes alone
// it loses none. With `switching` and `guard` held.
void leave_out_faults_if_lossy() {
  constexpr std::uint64_t enough = 64 << 20, percent = 5;
  const driver_sums moved = running->driver.read() - running->driver_before;
  const driver_sums heard = running->told - running->told_before;
  const std::uint64_t bytes = moved.to_gpus + moved.to_host, told = heard.to_gpus + heard.to_host;
  if (!running->driver.counts() || !running->with_faults || bytes < enough || told >= bytes) return;
  const std::uint64_t lost = 100 * (bytes - told) / bytes;
  if (lost < percent) return;
  running->with_faults = false;
  running->record.lack("faults after the first pause of counting: with them CUPTI lost " +
                       std::to_string(lost) + " % of the bytes");
}

// With `switching` held.
void pause_counting() {
  if (!running->counts) return;
  static_cast<void>(cupti().disable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
  running->counts = false;
  static_cast<void>(cupti().flush(0));
  const std::lock_guard lock(running->guard);
  leave_out_faults_if_lossy();
  running->record.pause(now(), running->driver.read());
}

// CUPTI and the driver count once there is a context.
void count_on(std::uint32_t device) {
  const std::lock_guard lock(running->switching);
  if (!running->devices.insert(device).second) return;
  running->file.write(gpu_line(device));
  if (!running->driver.begin()) lack("the driver's own sums of what moved (/dev/nvidia-uvm-tools)");
  const bool first = running->devices.size() == 1;
  if (!first && running->counts) {
    try {
      configure_counters(device);
    } catch (const unsupported& error) {
      lack("Unified Memory on GPU " + std::to_string(device) + ": " + error.what());
    }
  }
  if (first) begin_counting();
}

void follow_budget(nanoseconds time) {
  bool wanted = true;
  {
    const std::lock_guard lock(running->guard);
    wanted = running->budget.counts(time) || running->follow != nullptr;
  }
  const std::lock_guard lock(running->switching);
  if (wanted) return begin_counting();
  pause_counting();
}

// The program hears of each record itself, so that both count the same; nullptr ends it. A range tells each
// stretch from one call to the next.
void set_follower(follower each) {
  {
    const std::lock_guard lock(running->switching);
    if (each != nullptr) begin_counting();
  }
  const std::lock_guard lock(running->guard);
  const nanoseconds time = now();
  if (running->follow != nullptr)
    running->record.add(range{running->followed_since, time, "counted by the program, too"});
  running->followed_since = time;
  running->follow = each;
}

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId call, const void* data) try {
  if (!is_ours()) return;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    watch_call(call, *static_cast<const CUpti_CallbackData*>(data));
  } else if (domain == CUPTI_CB_DOMAIN_RESOURCE && call == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) {
    std::uint32_t device = 0;
    if (cupti().device_of(static_cast<const CUpti_ResourceData*>(data)->context, &device) == CUPTI_SUCCESS)
      count_on(device);
  }
} catch (const std::exception&) {  // no exception may pass through the driver
}

// --- collecting ---

// The driver keeps few thousand records of Unified Memory and says of none that it lost; so they are fetched
// often while they come, and each fetch takes time of the program's own threads.
std::chrono::microseconds pause_after(int calm_rounds) {
  constexpr std::chrono::microseconds while_they_come(200), else_(2'000), while_none_can(20'000);
  constexpr int rounds_of_calm = 50;
  if (!running->managed || !running->counts) return while_none_can;
  return calm_rounds < rounds_of_calm ? while_they_come : else_;
}

void collect() {
  constexpr nanoseconds between_writes = 50'000'000;
  nanoseconds written = now();
  for (int calm = 0; !running->over;) {
    running->busy = false;
    static_cast<void>(
        cupti().flush(0));  // a forced one would hand out kernels that still run, without their times
    calm = running->busy ? 0 : calm + 1;
    if (const nanoseconds time = now(); time - written > between_writes) {
      const std::lock_guard lock(running->guard);
      running->record.drain(time);
      written = time;
    }
    follow_budget(now());
    std::unique_lock lock(running->sleep);
    running->wake.wait_for(lock, pause_after(calm));
  }
}

// The driver hands its last records on some time after the work.
void finish() {
  if (!is_ours()) return;
  running->over = true;
  if (running->collector.joinable()) running->collector.join();
  constexpr int last_flushes = 10;
  constexpr auto pause = std::chrono::milliseconds(5);
  for (int i = 0; i < last_flushes; ++i) {
    static_cast<void>(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    std::this_thread::sleep_for(pause);
  }
  const std::scoped_lock lock(running->switching, running->guard);
  const driver_sums sums = running->driver.read();
  running->record.finish(now(), running->driver.counts() ? &sums : nullptr);
}

void enable(CUpti_ActivityKind kind, const char* name) {
  try {
    require(cupti().enable(kind));
  } catch (const unsupported& error) {
    running->record.lack(std::string(name) + ": " + error.what());
  }
}

void watch() {
  CUpti_SubscriberHandle subscriber{};
  try {
    require(cupti().subscribe(&subscriber, &on_callback, nullptr));
    require(cupti().enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
                                    CUPTI_CBID_RESOURCE_CONTEXT_CREATED));
    for (const CUpti_CallbackId call : watched_calls()) {
      static_cast<void>(cupti().enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call));
    }
  } catch (const unsupported& error) {
    running->record.lack(std::string("Unified Memory, prefetch and advice calls: ") + error.what());
  }
}

constexpr double usual_share = 0.03;

void begin(const std::string& path) {
  const output file(path);
  if (!file.is_open()) return;
  using std::chrono::system_clock;
  const auto wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
  try {
    static_cast<void>(cupti());
  } catch (const unsupported& error) {
    file.write(environment_line(0, wall) + '{' + kind("lacking") +
               field("what", std::string("everything: ") + error.what()) + "}\n");
    return;
  }
  const nanoseconds start = now();
  file.write(environment_line(start, wall));
  const bool times_only = std::getenv("UMBENCH_TRACE_TIMES") != nullptr;
  const char* const share = std::getenv("UMBENCH_TRACE_SHARE");
  running =
      new session(file, start, times_only, share != nullptr ? std::strtod(share, nullptr) : usual_share);
  const std::lock_guard lock(running->guard);
  try {
    require(cupti().register_callbacks(&give_activity_buffer, &take_buffer));
  } catch (const unsupported& error) {
    running->record.lack(std::string("everything: ") + error.what());
    return running->record.finish(start);
  }
  enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
  if (!times_only) {
    watch();
    enable(CUPTI_ACTIVITY_KIND_MEMCPY, "copies");
    enable(CUPTI_ACTIVITY_KIND_MEMSET, "memsets");
    enable(CUPTI_ACTIVITY_KIND_MEMORY2, "allocations");
    enable(CUPTI_ACTIVITY_KIND_MARKER, "named ranges (NVTX)");
  }
  running->collector = std::thread(collect);
  std::atexit(finish);
}

}  // namespace
}  // namespace um::tracing

// The driver calls it once, while it starts. Whatever goes wrong, the program goes on.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("UMBENCH_TRACE_OUT");
  if (path == nullptr || um::tracing::running != nullptr) return 1;
  try {
    um::tracing::begin(path);
  } catch (const std::exception&) {
  }
  return 1;
}

// For a program that counts by CUPTI itself, which hands records to one reader only.
extern "C" __attribute__((visibility("default"))) void umbench_trace_follow(
    void (*each)(const void* record)) {
  if (um::tracing::is_ours()) um::tracing::set_follower(each);
}
