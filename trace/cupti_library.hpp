// CUPTI, loaded when it is asked for and never linked: programs run without it.
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

// Looks for the file that UMBENCH_CUPTI names, on the library path, below CUDA_HOME, CUDA_PATH and
// /usr/local/cuda. Loaded once and never unloaded: CUPTI's own threads live as long as the process. Throws
// unsupported.
const cupti_functions& cupti();

// Throws unsupported with CUPTI's text for what is not CUPTI_SUCCESS.
void require(CUptiResult result);

// Asks for all counters of one device, or leaves out faults and what the driver does about contention. Needs
// a context on it. Throws unsupported.
void configure_unified_memory_counters(std::uint32_t device, bool with_faults = true);

// Bytes between GPUs, which not every system counts; false there.
bool configure_peer_counter(std::uint32_t device);

// For cuptiActivityRegisterCallbacks.
void CUPTIAPI give_activity_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);

}  // namespace um
