// Queries to NVML, the driver's management library. It is loaded when needed, requires no header and no CUDA,
// and does not disturb the GPU: any process may use it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "harness/study/environment.hpp"
#include "harness/study/observation.hpp"

namespace um {

inline constexpr const char* nvml_library = "libnvidia-ml.so.1";
inline constexpr std::array nvml_facts{"mig",
                                       "mps",
                                       "compute_mode",
                                       "persistence",
                                       "virtualization",
                                       "power_limit_mw",
                                       "most_sm_clock_mhz",
                                       "most_memory_clock_mhz"};

class nvml {
 public:
  // `bus_id` such as 0000:1b:00.0. Throws unsupported with the reason where NVML or the GPU is not there.
  explicit nvml(const std::string& bus_id, const char* library = nvml_library);
  ~nvml();
  nvml(nvml&&) noexcept;

  // Facts for the environment: those of `nvml_facts`, each known or missing.
  fact_sheet facts() const;
  // For a process with a context on the GPU: it is not counted among the others.
  gpu_state state() const;
  // Energy since the driver was loaded; updated every few tens of milliseconds.
  std::optional<std::uint64_t> energy_mj() const;

 private:
  struct library;
  std::unique_ptr<library> library_;
  void* device_ = nullptr;
};

}  // namespace um
