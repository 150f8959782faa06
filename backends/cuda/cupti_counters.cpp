#include "backends/cuda/cupti_counters.hpp"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "um_allocators/check.hpp"

namespace um {
namespace {

constexpr std::size_t buffer_bytes = 8 * MiB;
constexpr std::size_t buffer_alignment = 8;

// CUPTI hands buffers to plain functions without an argument of ours, so what they fill is global.
std::mutex counting;
unified_memory_counts counted;

struct library {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityConfigureUnifiedMemoryCounter) configure = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetResultString) text_of = nullptr;
};

std::vector<std::string> library_names() {
  const std::string own = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
  std::vector<std::string> names{own};
  std::vector<std::string> roots{"/usr/local/cuda"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const root = std::getenv(variable)) roots.insert(roots.begin(), root);
  }
  for (const std::string& root : roots) {
    for (const char* folder : {"/extras/CUPTI/lib64/", "/lib64/"}) names.push_back(root + folder + own);
  }
  return names;
}

void* open_library() {
  for (const std::string& name : library_names()) {
    if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  }
  throw unsupported("nothing is counted: no CUPTI (" + library_names().front() +
                    ") on the library path or below CUDA_HOME");
}

template <class Function>
void find(void* in, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(in, name));
  if (into == nullptr) throw unsupported(std::string("nothing is counted: this CUPTI lacks ") + name);
}

library load() {
  void* const in = open_library();
  library all;
  find(in, "cuptiActivityRegisterCallbacks", all.register_callbacks);
  find(in, "cuptiActivityConfigureUnifiedMemoryCounter", all.configure);
  find(in, "cuptiActivityEnable", all.enable);
  find(in, "cuptiActivityDisable", all.disable);
  find(in, "cuptiActivityFlushAll", all.flush);
  find(in, "cuptiActivityGetNextRecord", all.next_record);
  find(in, "cuptiActivityGetNumDroppedRecords", all.dropped);
  find(in, "cuptiGetResultString", all.text_of);
  return all;
}

// Loaded once and never unloaded: CUPTI's own threads live as long as the process.
const library& cupti() {
  static const library all = load();
  return all;
}

void require(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  static_cast<void>(cupti().text_of(result, &text));
  throw unsupported(std::string("nothing is counted: CUPTI: ") + (text != nullptr ? text : "unknown error"));
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *bytes = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard guard(counting);
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    add_record(counted, reinterpret_cast<const std::byte*>(record));
  }
  std::size_t dropped = 0;
  if (cupti().dropped(nullptr, 0, &dropped) == CUPTI_SUCCESS) counted.dropped += dropped;
  std::free(buffer);
}

void configure() {
  std::vector<CUpti_ActivityUnifiedMemoryCounterConfig> wanted;
  for (const auto kind : {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING,
                          CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP}) {
    CUpti_ActivityUnifiedMemoryCounterConfig one{};
    one.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
    one.kind = kind;
    check(cudaGetDevice(reinterpret_cast<int*>(&one.deviceId)));
    one.enable = 1;
    wanted.push_back(one);
  }
  require(cupti().configure(wanted.data(), static_cast<std::uint32_t>(wanted.size())));
}

std::uint64_t records_so_far() {
  const std::lock_guard guard(counting);
  return counted.records;
}

unified_memory_counts take_counts() {
  const std::lock_guard guard(counting);
  return std::exchange(counted, {});
}

}  // namespace

unified_memory_counter::unified_memory_counter() {
  check(cudaFree(nullptr));  // CUPTI wants a context
  require(cupti().register_callbacks(&give_buffer, &take_buffer));
  configure();
  require(cupti().enable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
}

unified_memory_counter::~unified_memory_counter() {
  static_cast<void>(cupti().disable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
}

// Without the thread, 4000 to 8191 records arrived of a read of 256 MiB, and no faults among them (driver
// 580).
void unified_memory_counter::start() {
  static_cast<void>(stop());
  collector_ = std::jthread([](const std::stop_token& over) {
    constexpr auto pause = std::chrono::microseconds(200);
    while (!over.stop_requested()) {
      static_cast<void>(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
      std::this_thread::sleep_for(pause);
    }
  });
}

unified_memory_counts unified_memory_counter::stop() {
  check(cudaDeviceSynchronize());
  collector_ = {};
  return collect();
}

// The driver hands its records on some time after the work: flushes until no more come.
unified_memory_counts unified_memory_counter::collect() {
  constexpr auto pause = std::chrono::milliseconds(10);
  constexpr int quiet_enough = 4, most_flushes = 50;
  std::uint64_t seen = 0;
  for (int quiet = 0, flushes = 0; quiet < quiet_enough && flushes < most_flushes; ++flushes) {
    require(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    const std::uint64_t now = records_so_far();
    quiet = now == seen ? quiet + 1 : 0;
    seen = now;
    std::this_thread::sleep_for(pause);
  }
  return take_counts();
}

}  // namespace um
