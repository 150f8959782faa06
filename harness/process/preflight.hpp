// Checks before a run whether cells fit the memory of this host and its GPU.
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
  std::optional<byte_count> device_free = {};  // free memory of the GPU; nothing: not queried
};

// The simulator's estimate of a cell.
struct cell_needs {
  std::string key;  // of the cell
  bool on_gpu = false;
  outcome result = outcome::ok;
  std::optional<std::string> reason = {};  // empty if result is ok
  byte_count device_bytes = 0, host_bytes = 0, pinned_bytes = 0;
  byte_count device_arena_bytes = 0;
  byte_count guarded_managed_bytes = 0;  // managed memory under a guard (um_allocators/arena.hpp)
  nanoseconds time = 0;                  // time of all iterations, without setup
  std::chrono::nanoseconds processor{};  // approximate processor time to plan and simulate them
};

// Simulates every cell in child processes, `jobs` at a time, cells for a GPU on the machine whose figures
// their planners use. Prints a line for each to `progress` unless that is nullptr. Returns nothing if a stop
// signal came.
std::optional<std::vector<cell_needs>> estimates_of(std::span<const cell> cells, std::size_t jobs,
                                                    signal_watch& signals, std::FILE* progress = nullptr);

// A row per cell, totals with `jobs` at a time, and what does not fit.
std::string preflight_text(std::span<const cell_needs> all, const std::string& stand_in, std::size_t jobs,
                           const available_memory& r);

// One line if GPU cells need more device or host memory than there is; "" otherwise.
std::string preflight_warning(std::span<const cell_needs> all, const available_memory& r);
bool any_fits(std::span<const cell_needs> all, const available_memory& r);

}  // namespace um
