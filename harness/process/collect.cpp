#include "harness/process/collect.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "harness/process/facts.hpp"
#include "harness/process/gpu.hpp"

namespace um {

environment collect_environment(std::optional<gpu_facts> gpu) {
  environment e;
  e.umbench = version_text();
  e.compiler = compiler_text();
  e.has_cuda_backend = built_with_cuda();
  e.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  e.host = facts_of_host();
  e.gpu = std::move(gpu);
  e.nvidia_uvm = uvm_parameters();
  if (!e.nvidia_uvm) e.host.facts.missing["nvidia_uvm"] = "there is no /sys/module/nvidia_uvm/parameters";
  return e;
}

}  // namespace um
