#include "harness/gpu.hpp"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <fstream>

#include "backends/cuda/cuda_backend.hpp"
#include "benchmarks/measure/parameters.hpp"
#include "um_allocators/check.hpp"

namespace um {
namespace {

// "13.0" of 13000.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// "9.19.0" of 91900.
std::string cudnn_version(std::size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

bool attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, device));
  return value != 0;
}

// The version number in "NVRM version: NVIDIA UNIX ... Module  580.159.04  Release Build ...".
std::optional<std::string> driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool dotted = word.find('.') != std::string::npos;
    if (dotted && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return std::nullopt;
}

void refuse_absent(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw unsupported(fmt::format(
        "no GPU can be used: {}; check the driver with nvidia-smi, or use a simulated machine (sim:NAME)",
        status == cudaSuccess ? "none is visible" : cudaGetErrorString(status)));
  }
  if (device >= count) {
    throw unsupported(
        fmt::format("there is no GPU cuda:{}; this machine has cuda:0 to cuda:{}", device, count - 1));
  }
}

}  // namespace

bool built_with_cuda() {
  return true;
}

std::unique_ptr<backend> open_gpu(int device, byte_count workspace_cap, bool allow_native_oversubscription) {
  refuse_absent(device);
  cuda_options options;
  options.workspace_cap = workspace_cap;
  options.allow_native_oversubscription = allow_native_oversubscription;
  return open_cuda(device, options);
}

gpu_facts probe_gpu(int device) {
  refuse_absent(device);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  gpu_facts gpu;
  gpu.device = device;
  gpu.name = properties.name;
  gpu.driver = driver_version();
  gpu.memory_bytes = properties.totalGlobalMem;
  gpu.compute_capability = fmt::format("{}.{}", properties.major, properties.minor);
  gpu.concurrent_managed_access = attribute(cudaDevAttrConcurrentManagedAccess, device);
  gpu.pageable_memory_access = attribute(cudaDevAttrPageableMemoryAccess, device);
  gpu.cuda_driver = cuda_version(driver);
  gpu.cuda_runtime = cuda_version(runtime);
  gpu.cudnn = cudnn_version(cudnnGetVersion());
  return gpu;
}

measure::calibration calibrate_gpu(int device, const std::function<void(std::string_view)>& progress) {
  refuse_absent(device);
  measure::bench on(device);
  return measure::calibrate(on, progress);
}

}  // namespace um
