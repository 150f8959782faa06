// The part of the harness that needs CUDA. A build without CUDA links gpu_absent.cpp instead.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "harness/process/observer.hpp"
#include "harness/study/environment.hpp"
#include "measure/figures.hpp"

namespace um {

bool built_with_cuda();

// These functions initialise CUDA, so only child processes for one cell or one query may call them. They
// throw unsupported, with a message of one line, if there is no CUDA backend, no driver or no such GPU.
std::unique_ptr<backend> open_gpu(int device, byte_count workspace_cap, bool allow_native_oversubscription);
gpu_facts probe_gpu(int device);
// An observer for a run of `iterations` on the GPU. Without NVML its observation has the reason.
observer observer_of(int device, std::uint32_t iterations);
// Runs the plan with the driver's counters on and returns the counts of each iteration. Throws unsupported
// with the reason if counters are not available.
std::vector<counters> count_on_gpu(backend& target, const graph& g, const execution_plan& plan,
                                   std::uint32_t iterations);
// Takes up to a minute; `progress` receives the name of each measurement.
measure::calibration calibrate_gpu(int device, const uvm_costs& given,
                                   const std::function<void(std::string_view)>& progress);

}  // namespace um
