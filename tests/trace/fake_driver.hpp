// A Unified Memory driver that a test drives. The library's own open(), ioctl() and readlinkat() reach it,
// since this library comes before libc.
#pragma once

#include <cstdint>

extern "C" {
// From now on /dev/nvidia-uvm-tools is there.
void fake_driver_begin();
// Events of the driver's layout: migrations to the GPU, and faults, with the replay of their batch or
// without. Those that are enabled come with the next flush.
void fake_migrate(std::uint32_t count, std::uint64_t address, std::uint64_t bytes_each);
void fake_fault(std::uint32_t batch, std::uint32_t granules, std::uint64_t address, bool replayed);
bool fake_events_enabled();
std::uint32_t fake_events_waiting();  // not yet in the queue
}
