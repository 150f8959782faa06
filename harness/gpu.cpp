#include "harness/gpu.hpp"

#include <cublasLt.h>
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

// Tells GPUs apart without naming one (FNV-1a over the identifier).
std::string hashed(const cudaUUID_t& uuid) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : uuid.bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

std::string cublas_version() {
  int major = 0, minor = 0, patch = 0;
  cublasLtGetProperty(MAJOR_VERSION, &major);
  cublasLtGetProperty(MINOR_VERSION, &minor);
  cublasLtGetProperty(PATCH_LEVEL, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

named_facts more_facts(const cudaDeviceProp& properties, int device) {
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  named_facts facts = gpu_facts_in("/", fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID,
                                                    properties.pciBusID, properties.pciDeviceID));
  facts["uuid_hash"] = hashed(properties.uuid);
  facts["cublas"] = cublas_version();
  facts["ecc"] = yes(properties.ECCEnabled != 0);
  facts["uses_host_page_tables"] = yes(attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables, device));
  facts["host_accesses_device_memory"] = yes(attribute(cudaDevAttrDirectManagedMemAccessFromHost, device));
  return facts;
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
  gpu.facts = more_facts(properties, device);
  return gpu;
}

measure::calibration calibrate_gpu(int device, const std::function<void(std::string_view)>& progress) {
  refuse_absent(device);
  measure::bench on(device);
  return measure::calibrate(on, progress);
}

}  // namespace um
