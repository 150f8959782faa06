// What the driver's management library, NVML, knows of a GPU. It is loaded when asked, needs no header and
// no CUDA, and does not disturb the GPU: any process may use it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

  // For the fingerprint: those of `nvml_facts`, each known or missing.
  fact_sheet facts() const;
  // For a process with a context on the GPU: it does not count as another.
  gpu_state state() const;
  // Since the driver was loaded, in steps of some tens of milliseconds.
  std::optional<std::uint64_t> energy_mj() const;

 private:
  struct library;
  std::unique_ptr<library> library_;
  void* device_ = nullptr;
};

}  // namespace um
