// Loads CUPTI at its first use. It is not linked, so programs run without it.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace um {

struct cupti_functions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityConfigureUnifiedMemoryCounter) configure = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetResultString) text_of = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiGetDeviceId) device_of = nullptr;
};

// Opens CUPTI: the file that UMBENCH_CUPTI names; without it, or if that fails, libcupti.so.N on the library
// path, then below CUDA_PATH, CUDA_HOME and /usr/local/cuda. The library is never unloaded, since CUPTI's
// threads live as long as the process. Throws unsupported.
const cupti_functions& cupti();

// Throws unsupported with CUPTI's message unless `result` is CUPTI_SUCCESS.
void require(CUptiResult result);

// Enables all counters of a device; without `with_faults`, all but those of faults and contention. The device
// must have a context. Throws unsupported.
void configure_unified_memory_counters(std::uint32_t device, bool with_faults = true);

// Enables the counter of bytes between GPUs. Returns false on systems that do not have it.
bool configure_peer_counter(std::uint32_t device);

// Allocates a buffer for records, as a callback for cuptiActivityRegisterCallbacks.
void CUPTIAPI give_activity_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);

}  // namespace um
