#include "trace/cupti_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/units.hpp"

namespace um {
namespace {

constexpr std::size_t buffer_bytes = 512 * KiB;
constexpr std::size_t buffer_alignment = 8;

std::vector<std::string> library_names() {
  const std::string own = "libcupti.so." + std::to_string(CUDA_VERSION / 1000);
  std::vector<std::string> names{own};
  if (const char* const asked = std::getenv("UMBENCH_CUPTI")) names.insert(names.begin(), asked);
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
  throw unsupported("no CUPTI (" + library_names().back() +
                    ") on the library path or below CUDA_HOME; let UMBENCH_CUPTI name libcupti.so");
}

template <class Function>
void find_symbol(void* in, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(in, name));
  if (into == nullptr) throw unsupported(std::string("this CUPTI lacks ") + name);
}

cupti_functions load() {
  void* const in = open_library();
  cupti_functions all;
  find_symbol(in, "cuptiActivityRegisterCallbacks", all.register_callbacks);
  find_symbol(in, "cuptiActivityConfigureUnifiedMemoryCounter", all.configure);
  find_symbol(in, "cuptiActivityEnable", all.enable);
  find_symbol(in, "cuptiActivityDisable", all.disable);
  find_symbol(in, "cuptiActivityFlushAll", all.flush);
  find_symbol(in, "cuptiActivityGetNextRecord", all.next_record);
  find_symbol(in, "cuptiActivityGetNumDroppedRecords", all.dropped);
  find_symbol(in, "cuptiGetResultString", all.text_of);
  find_symbol(in, "cuptiSubscribe", all.subscribe);
  find_symbol(in, "cuptiEnableCallback", all.enable_callback);
  find_symbol(in, "cuptiGetTimestamp", all.timestamp);
  find_symbol(in, "cuptiGetDeviceId", all.device_of);
  return all;
}

}  // namespace

const cupti_functions& cupti() {
  static const cupti_functions all = load();
  return all;
}

void require(CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  static_cast<void>(cupti().text_of(result, &text));
  throw unsupported(std::string("CUPTI: ") + (text != nullptr ? text : "unknown error"));
}

namespace {

using kind = CUpti_ActivityUnifiedMemoryCounterKind;
constexpr kind of_bytes[] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
                             CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH};
constexpr kind of_faults[] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
                              CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
                              CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING,
                              CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING,
                              CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP};
constexpr kind of_peers[] = {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD};

using configuration = std::vector<CUpti_ActivityUnifiedMemoryCounterConfig>;

void append(configuration& to, std::uint32_t device, std::span<const kind> kinds, bool enable) {
  for (const kind k : kinds) {
    CUpti_ActivityUnifiedMemoryCounterConfig one{};
    one.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
    one.kind = k;
    one.deviceId = device;
    one.enable = enable ? 1 : 0;
    to.push_back(one);
  }
}

CUptiResult configure(configuration wanted) {
  return cupti().configure(wanted.data(), static_cast<std::uint32_t>(wanted.size()));
}

}  // namespace

void configure_unified_memory_counters(std::uint32_t device, bool with_faults) {
  configuration wanted;
  append(wanted, device, of_bytes, true);
  append(wanted, device, of_faults, with_faults);
  require(configure(std::move(wanted)));
}

bool configure_peer_counter(std::uint32_t device) {
  configuration wanted;
  append(wanted, device, of_peers, true);
  return configure(std::move(wanted)) == CUPTI_SUCCESS;
}

void CUPTIAPI give_activity_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *bytes = *buffer == nullptr ? 0 : buffer_bytes;
  *max_records = 0;
}

}  // namespace um
