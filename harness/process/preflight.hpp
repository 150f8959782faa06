// Checks before a run whether a cell fits: its needs against the memory of this host.
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/process/child.hpp"
#include "harness/process/host_needs.hpp"
#include "harness/study/record.hpp"

namespace um {

// Memory that a run may use, on the host and on the device.
struct available_memory {
  host_memory host;
  std::optional<byte_count> device_free = {};  // free memory of the GPU; nothing: not asked
};

// The simulator's estimate of a cell.
struct estimate {
  std::string key;
  bool on_gpu = false;
  outcome result = outcome::ok;
  std::optional<std::string> reason = {};  // unless ok
  byte_count device_bytes = 0, host_bytes = 0, pinned_bytes = 0;
  byte_count device_arena_bytes = 0;
  byte_count guarded_bytes = 0;          // managed memory under a guard (um_allocators/arena.hpp)
  nanoseconds time = 0;                  // all iterations; nothing around them
  std::chrono::nanoseconds processor{};  // to simulate them, planning included, about
};

// Simulates every cell in child processes, `jobs` at a time; those for a GPU on the machine whose figures
// they go by. A line for each appears on `progress`, unless that is nullptr. Nothing if a stop signal came.
std::optional<std::vector<estimate>> estimates_of(std::span<const cell> cells, std::size_t jobs,
                                                  signal_watch& signals, std::FILE* progress = nullptr);

// A row a cell, the totals where `jobs` run at a time, and what does not fit.
std::string preflight_text(std::span<const estimate> all, const std::string& stand_in, std::size_t jobs,
                           const available_memory& r);

// One line if cells for a GPU need more memory of either side than there is; "" if none does.
std::string preflight_warning(std::span<const estimate> all, const available_memory& r);
bool any_fits(std::span<const estimate> all, const available_memory& r);

}  // namespace um
