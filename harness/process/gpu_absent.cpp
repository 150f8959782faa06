#include "core/errors.hpp"
#include "harness/process/gpu.hpp"

namespace um {
namespace {

constexpr const char* absent =
    "this build has no CUDA backend; install a CUDA toolkit (12.4 or later) and cuDNN 9 and configure with "
    "-DUM_CUDA=ON, or use a simulated machine (sim:NAME)";

}  // namespace

bool built_with_cuda() {
  return false;
}
std::unique_ptr<backend> open_gpu(int, byte_count, bool) {
  throw unsupported(absent);
}
gpu_facts probe_gpu(int) {
  throw unsupported(absent);
}
observer observer_of(int, std::uint32_t) {
  throw unsupported(absent);
}
std::vector<counters> count_on_gpu(backend&, const graph&, const execution_plan&, std::uint32_t) {
  throw unsupported(absent);
}
measure::calibration calibrate_gpu(int, const uvm_costs&, const std::function<void(std::string_view)>&) {
  throw unsupported(absent);
}

}  // namespace um
