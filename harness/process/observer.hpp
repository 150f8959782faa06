// Observes a run on a GPU: energy, processor time, clocks and temperatures.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/record.hpp"

namespace um {

// Queries to NVML, the driver's management library. It is loaded at run time, needs neither a header nor
// CUDA, and does not create a context on the GPU, so any process may use it.

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
  // `bus_id` such as 0000:1b:00.0. Throws unsupported, with the reason, if NVML or the GPU is missing.
  explicit nvml(const std::string& bus_id, const char* library = nvml_library);
  ~nvml();
  nvml(nvml&&) noexcept;

  // Facts for the environment: those of `nvml_facts`, each known or missing.
  fact_sheet facts() const;
  // For a process with a context on the GPU, which is not counted in other_processes.
  gpu_state state() const;
  // Energy since the driver was loaded; updated every few tens of milliseconds.
  std::optional<std::uint64_t> energy_mj() const;

 private:
  struct library;
  std::unique_ptr<library> library_;
  void* device_ = nullptr;
};

// Pass `on_iterations_done` to execution_request::watch, for a run of `iterations` with untimed iterations at
// the end.
class observer {
 public:
  // Long enough for many updates of the energy counter.
  static constexpr nanoseconds linger_time = 1'000'000'000;  // duration of the untimed iterations

  // `why_not` is the reason if `gpu` is empty.
  observer(std::uint32_t iterations, std::optional<nvml> gpu, std::string why_not = {});

  // Called when `done` iterations have ended. Stores the GPU's state before and after the timed
  // iterations, and energy before and after the untimed ones.
  void on_iterations_done(std::uint32_t done);
  observation result() const;

 private:
  struct energy_mark {
    std::uint32_t done = 0;  // iterations that have ended
    nanoseconds host_cpu = 0;
    std::optional<std::uint64_t> energy_mj;
  };
  energy_mark take_mark(std::uint32_t done) const;

  std::uint32_t iterations_;
  std::optional<nvml> gpu_;
  std::string unavailable_reason_;
  std::optional<gpu_state> before_, after_;
  std::optional<energy_mark> begin_, end_;
};

}  // namespace um
