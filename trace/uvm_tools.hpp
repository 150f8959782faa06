// The tools interface of NVIDIA's Unified Memory driver: counters and events of this process
// (kernel-open/nvidia-uvm/uvm_ioctl.h, uvm_types.h and uvm_tools.c of NVIDIA's open GPU kernel modules).
#pragma once

#include <cstdint>

namespace um::tracing {

// Memory that the driver writes to, in whole pages. Without a queue `control` holds counters.
struct tracked_memory {
  void* queue = nullptr;
  std::uint32_t entries = 0;  // of the queue, a power of two
  void* control = nullptr;
};

struct tracker {
  int file = -1;      // tracking ends when it is closed; -1 where the driver refuses
  int uvm_file = -1;  // the program's own
};
// `wanted` has one bit for each event or counter. Needs a CUDA context.
tracker open_tracker(const tracked_memory& memory, std::uint64_t wanted);

// Switches events of a tracker with a queue. False where the driver refuses.
bool switch_events(const tracker& of, bool on, std::uint64_t wanted);

// The driver puts finished work into the queue at once. Without this call it waits until it next has work.
void flush_events(const tracker& of);

}  // namespace um::tracing
