// Observes a run on a GPU: energy, processor time, clocks and temperatures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "harness/process/nvml.hpp"

namespace um {

// Pass `watch` to execution_request::watch, for a run of `iterations` with untimed iterations at the end.
class observer {
 public:
  // Duration of the untimed iterations: many steps of the energy counter.
  static constexpr nanoseconds linger_time = 1'000'000'000;

  // `why_not`: the reason if there is no NVML.
  observer(std::uint32_t iterations, std::optional<nvml> gpu, std::string why_not = {});

  // `iterations_done` have ended. Notes the GPU's state and energy before and after the timed ones.
  void watch(std::uint32_t iterations_done);
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
  std::string why_not_;
  std::optional<gpu_state> before_, after_;
  std::optional<energy_mark> begin_, end_;
};

}  // namespace um
