// The state of a GPU during a measurement, and the energy and processor time of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// The state of a GPU at one moment; members are empty if unknown.
struct gpu_state {
  std::optional<std::uint64_t> sm_clock_mhz, memory_clock_mhz, temperature_c, power_mw;
  std::optional<std::uint64_t> pcie_generation,
      pcie_width;                                        // of the link as it runs now: idle links slow down
  std::optional<std::uint64_t> other_processes;          // that have a context on it, too
  std::optional<std::vector<std::string>> throttled_by;  // what holds the clocks down
  friend bool operator==(const gpu_state&, const gpu_state&) = default;
};

// Nothing where it was not observed.
struct observation {
  std::optional<gpu_state> before, after;  // right before and right after the iterations that are timed
  // An iteration's, averaged over those that follow the timed ones.
  std::optional<nanoseconds> host_cpu;  // processor time of the cell's process, all threads, user and system
  std::optional<std::uint64_t> energy_uj;  // energy of the whole GPU
  std::optional<std::string> reason;       // why some of these are not there
};

}  // namespace um
