#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>
#include <optional>
#include <utility>

#include "core/errors.hpp"
#include "trace/cupti_library.hpp"
#include "trace/line_writer.hpp"
#include "trace/session.hpp"

namespace um::tracing {
namespace {

// unified_memory_record has the layout of the beginning of CUPTI's record.
static_assert(sizeof(unified_memory_record) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, processors));
static_assert(offsetof(unified_memory_record, counter) ==
              offsetof(CUpti_ActivityUnifiedMemoryCounter3, counterKind));
static_assert(offsetof(unified_memory_record, value) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, value));
static_assert(offsetof(unified_memory_record, start) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, start));
static_assert(offsetof(unified_memory_record, end) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, end));
static_assert(offsetof(unified_memory_record, address) ==
              offsetof(CUpti_ActivityUnifiedMemoryCounter3, address));
static_assert(offsetof(unified_memory_record, source) ==
              offsetof(CUpti_ActivityUnifiedMemoryCounter3, srcId));
static_assert(offsetof(unified_memory_record, destination) ==
              offsetof(CUpti_ActivityUnifiedMemoryCounter3, dstId));
static_assert(offsetof(unified_memory_record, flags) == offsetof(CUpti_ActivityUnifiedMemoryCounter3, flags));

template <class Function>
Function driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(driver, name));
}

std::string name_of_gpu(std::uint32_t device) {
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
  return '{' + kind_field("gpu") + field("gpu", device) + field("name", name) + field("bytes", bytes) +
         field("concurrent_managed_access", concurrent) + field("pageable_memory_access", pageable) + "}\n";
}

// The time that counting takes for one event, from programs with and without a trace on an H100 (driver 580).
nanoseconds counting_cost_of(const unified_memory_record& r) {
  constexpr nanoseconds of_bytes = 1'000, of_any_beside_faults = 5'000, of_cpu_fault = 26'000;
  if (r.counter == counter_kind::cpu_page_fault) return of_cpu_fault;
  return running->with_faults ? of_any_beside_faults : of_bytes;
}

// Bytes alone; the sums of faults stay 0.
driver_sums sums_of_records() {
  return {.to_gpus = running->recorded_bytes_to_gpus, .to_host = running->recorded_bytes_to_host};
}

// --- these functions require counting_mutex to be locked ---

// Returns now() minus CLOCK_MONOTONIC_RAW: the largest of three tries, since a thread that is preempted
// between reading the two clocks gets too small a value.
nanoseconds offset_from_driver_clock() {
  nanoseconds largest = std::numeric_limits<nanoseconds>::lowest();
  for (int i = 0; i < 3; ++i) {
    const nanoseconds here = now();
    timespec raw{};
    clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    largest = std::max(largest, here - (raw.tv_sec * 1'000'000'000 + raw.tv_nsec));
  }
  return largest;
}

void post_events() {
  std::vector<unified_memory_record> came;
  running->events.read(offset_from_driver_clock(),
                       [&came](const unified_memory_record& r) { came.push_back(r); });
  if (came.empty()) return;
  running->writer.post([came = std::move(came)] {
    for (const unified_memory_record& r : came) take_unified_memory_record(r);
  });
}

// Returns whether to count faults. CUPTI loses bytes while it counts faults, so they are left out for a
// program that itself counts only bytes by CUPTI.
bool wants_faults(bool by_cupti) {
  const bool own = running->trace_wants_faults;
  const std::optional<bool>& follower = running->follower_wants_faults;
  if (!follower) return own;
  return *follower || (own && !by_cupti);
}

bool begin_counting_by_events() {
  running->with_faults = wants_faults(false);
  return running->devices.size() == 1 &&
         running->events.begin(*running->devices.begin(), running->with_faults);
}

void begin_counting_by_cupti() {
  running->with_faults = wants_faults(true);
  if (running->trace_wants_faults && !running->with_faults)
    note_missing("faults while the program counted bytes alone: with them CUPTI loses bytes");
  try {
    for (const std::uint32_t device : running->devices) {
      configure_unified_memory_counters(device, running->with_faults);
      if (!configure_peer_counter(device)) note_missing("bytes between GPUs");
    }
    require(cupti().enable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
  } catch (const unsupported& error) {
    running->may_count = false;
    note_missing(std::string("Unified Memory: ") + error.what());
  }
}

void begin_counting() {
  if (running->counts || !running->may_count || running->devices.empty()) return;
  running->by_cupti = !begin_counting_by_events();
  if (running->by_cupti) begin_counting_by_cupti();
  if (!running->may_count) return;
  running->counts = true;
  const driver_sums sums = running->driver.read();
  running->driver_sums_at_begin = running->driver_sums_at_last_check = sums;
  running->sums_of_records_at_begin = sums_of_records();
  running->last_loss_check = now();
  running->writer.post([at = now(), sums] { running->record.resume(at, sums); });
}

void stop_counting() {
  if (!running->by_cupti) {
    running->events.flush();
    running->events.pause();
    post_events();
    if (const std::uint64_t lost = running->events.take_lost_count(); lost > 0)
      running->writer.post([lost] { running->record.add_lost_records(lost); });
  } else {
    static_cast<void>(cupti().disable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
  }
  running->counts = false;
}

// Stops counting faults if CUPTI loses records. It loses them without notice where a program faults a lot,
// and none if it counts only bytes. The driver's sums show the loss. All records up to the time of `by_then`
// must have arrived.
void stop_counting_faults_if_lossy(const driver_sums& by_then) {
  constexpr std::uint64_t too_many = 5;
  if (!running->driver.counts() || !running->trace_wants_faults || running->follower_wants_faults ||
      !running->by_cupti)
    return;
  const std::uint64_t percent_lost = lost_percent(by_then - running->driver_sums_at_begin,
                                                  sums_of_records() - running->sums_of_records_at_begin);
  if (percent_lost < too_many) return;
  running->trace_wants_faults = false;
  note_missing("faults but for the first part: with them CUPTI lost " + std::to_string(percent_lost) +
               " % of the bytes");
  if (!running->counts) return;
  stop_counting();
  begin_counting();
}

// Checks for losses at most twice a second.
void check_for_losses_at_intervals(nanoseconds time) {
  constexpr nanoseconds until_records_have_come = 500'000'000;
  if (!running->counts || time - running->last_loss_check < until_records_have_come) return;
  running->last_loss_check = time;
  const driver_sums then = std::exchange(running->driver_sums_at_last_check, running->driver.read());
  stop_counting_faults_if_lossy(then);
}

void pause_counting() {
  if (!running->counts) return;
  stop_counting();
  const driver_sums sums = running->driver.read();
  running->writer.post([at = now(), sums] { running->record.pause(at, sums); });
  static_cast<void>(cupti().flush(0));
  running->writer.wait();
  stop_counting_faults_if_lossy(sums);
}

}  // namespace

void start_counting_on(std::uint32_t device) {
  const std::lock_guard lock(running->counting_mutex);
  if (!running->devices.insert(device).second) return;
  running->file.write(name_of_gpu(device));
  if (!running->driver.begin()) note_missing("the driver's own sums of what moved (/dev/nvidia-uvm-tools)");
  if (running->counts && !running->by_cupti)
    stop_counting();  // events do not name the GPU, so with two GPUs CUPTI counts
  begin_counting();   // does nothing if counting is on: CUPTI counts later GPUs, too (two H100s, driver 580)
}

void pause_or_resume_by_budget(nanoseconds time) {
  const std::lock_guard lock(running->counting_mutex);
  if (!running->budget.may_count(time) && !running->follower_wants_faults) return pause_counting();
  begin_counting();
  check_for_losses_at_intervals(time);
}

void fetch_events(bool flush) {
  const std::lock_guard lock(running->counting_mutex);
  if (!running->events.active()) return;
  if (flush) running->events.flush();
  post_events();
}

void end_counting() {
  const std::lock_guard lock(running->counting_mutex);
  if (running->counts) stop_counting();
}

void set_follower(follower each, bool with_faults) {
  {
    const std::lock_guard lock(running->counting_mutex);
    running->follower_wants_faults = each != nullptr ? std::optional(with_faults) : std::nullopt;
    const bool restarts = running->counts && running->with_faults != wants_faults(running->by_cupti);
    if (restarts) stop_counting();
    if (restarts || each != nullptr) begin_counting();
  }
  running->writer.post([each, at = now()] {
    if (running->follow != nullptr)
      running->record.add(range{running->followed_since, at, "counted by the program, too"});
    running->followed_since = at;
    running->follow = each;
  });
  running->writer.wait();
}

void take_unified_memory_record(const unified_memory_record& r) {
  running->has_managed_memory = true;
  running->budget.spend(counting_cost_of(r));
  if (r.counter == counter_kind::bytes_to_device) running->recorded_bytes_to_gpus += r.value;
  if (r.counter == counter_kind::bytes_to_host) running->recorded_bytes_to_host += r.value;
  if (running->follow != nullptr) running->follow(&r);
  add(running->record, r);
}

}  // namespace um::tracing
