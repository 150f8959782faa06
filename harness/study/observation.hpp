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
  std::optional<std::uint64_t> other_processes;          // other processes with a context on the GPU
  std::optional<std::vector<std::string>> throttled_by;  // reasons why clocks are reduced
  friend bool operator==(const gpu_state&, const gpu_state&) = default;
};

// Members are empty if not observed.
struct observation {
  std::optional<gpu_state> before, after;  // just before and just after the timed iterations
  // Averages per iteration, over the iterations that follow the timed ones.
  std::optional<nanoseconds> host_cpu;  // processor time of the cell's process, all threads, user and system
  std::optional<std::uint64_t> energy_uj;     // energy of the whole GPU
  std::optional<std::string> missing_reason;  // why some members are empty
};

}  // namespace um
