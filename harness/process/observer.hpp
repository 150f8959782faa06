// Observes a run on a GPU: energy, processor time, clocks and temperatures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "harness/process/nvml.hpp"

namespace um {

// Its `watch` is for execution_request::watch, of a run of `iterations` that lingers.
class observer {
 public:
  // For how long iterations go on after the timed ones: many steps of the energy counter.
  static constexpr nanoseconds linger = 1'000'000'000;

  // Without NVML, `why_not` says why.
  observer(std::uint32_t iterations, std::optional<nvml> gpu, std::string why_not = {});

  void watch(std::uint32_t done);
  observation result() const;

 private:
  struct mark {
    std::uint32_t done = 0;
    nanoseconds host_cpu = 0;
    std::optional<std::uint64_t> energy_mj;
  };
  mark mark_now(std::uint32_t done) const;

  std::uint32_t iterations_;
  std::optional<nvml> gpu_;
  std::string why_not_;
  std::optional<gpu_state> before_, after_;
  std::optional<mark> begin_, end_;
};

}  // namespace um
