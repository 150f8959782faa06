#include "harness/process/gpu.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <optional>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/cupti_counters.hpp"
#include "core/hash.hpp"
#include "harness/process/facts.hpp"
#include "measure/parameters.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"
#include "um_allocators/handle.hpp"

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

// The version number in "NVRM version: NVIDIA UNIX ... Module  580.159.04  Release Build ...".
std::optional<std::string> driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool dotted = word.find('.') != std::string::npos;
    if (dotted && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return std::nullopt;
}

// A hash of the GPU's UUID, so that records do not contain the UUID.
std::string hash_uuid(const cudaUUID_t& uuid) {
  return fmt::format("{:016x}", fnv1a({uuid.bytes, sizeof uuid.bytes}));
}

std::string cublas_version() {
  int major = 0, minor = 0, patch = 0;
  cublasLtGetProperty(MAJOR_VERSION, &major);
  cublasLtGetProperty(MINOR_VERSION, &minor);
  cublasLtGetProperty(PATCH_LEVEL, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::string bus_id(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  std::string id = text.data();
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id;
}

// Reads the state while copies run, since an idle link lowers its generation to save power.
gpu_state state_under_load(const nvml& gpu) {
  constexpr byte_count bytes = 32 * MiB;
  constexpr int copies = 128;
  const arena from = pinned_arena(bytes), to = device_arena(bytes);
  const cuda_stream on = make_stream();
  for (int i = 0; i < copies; ++i) {
    check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyHostToDevice, on.get()));
  }
  const gpu_state loaded = gpu.state();
  check(cudaStreamSynchronize(on.get()));
  return loaded;
}

constexpr std::array facts_under_load{"pcie_generation", "pcie_width", "other_processes"};

void add_nvml_facts(fact_sheet& facts, int device) {
  try {
    const nvml gpu(bus_id(device));
    fact_sheet told = gpu.facts();
    facts.known.merge(told.known);
    facts.missing.merge(told.missing);
    const gpu_state loaded = state_under_load(gpu);
    const std::array values{loaded.pcie_generation, loaded.pcie_width, loaded.other_processes};
    for (std::size_t i = 0; i < values.size(); ++i) {
      facts.add(facts_under_load[i], values[i] ? std::optional(std::to_string(*values[i])) : std::nullopt,
                "NVML does not tell");
    }
  } catch (const unsupported& reason) {
    for (const char* name : nvml_facts) facts.add(name, std::nullopt, reason.what());
    for (const char* name : facts_under_load) facts.add(name, std::nullopt, reason.what());
  }
}

// How kernels access memory from malloc: by faults that the driver handles, by hardware of the link, or not
// at all.
const char* host_addressing_mode(int device) {
  if (device_attribute(cudaDevAttrPageableMemoryAccess, device) == 0) return "none";
  return device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables, device) != 0 ? "ats" : "hmm";
}

fact_sheet further_facts(const cudaDeviceProp& properties, int device) {
  const auto yes = [](bool b) { return b ? "yes" : "no"; };
  fact_sheet facts = gpu_facts_in("/", bus_id(device));
  facts.known["uuid_hash"] = hash_uuid(properties.uuid);
  facts.known["cublas"] = cublas_version();
  facts.known["ecc"] = yes(properties.ECCEnabled != 0);
  facts.known["addressing"] = host_addressing_mode(device);
  facts.known["host_accesses_device_memory"] =
      yes(device_attribute(cudaDevAttrDirectManagedMemAccessFromHost, device) != 0);
  add_nvml_facts(facts, device);
  return facts;
}

}  // namespace

bool built_with_cuda() {
  return true;
}

std::unique_ptr<backend> open_gpu(int device, byte_count workspace_cap, bool allow_native_oversubscription) {
  require_gpu(device);
  cuda_options options;
  options.workspace_cap = workspace_cap;
  options.allow_native_oversubscription = allow_native_oversubscription;
  return open_cuda(device, options);
}

gpu_facts probe_gpu(int device) {
  require_gpu(device);
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
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  gpu.free_bytes = free;
  gpu.compute_capability = fmt::format("{}.{}", properties.major, properties.minor);
  gpu.concurrent_managed_access = device_attribute(cudaDevAttrConcurrentManagedAccess, device) != 0;
  gpu.pageable_memory_access = device_attribute(cudaDevAttrPageableMemoryAccess, device) != 0;
  gpu.cuda_driver = cuda_version(driver);
  gpu.cuda_runtime = cuda_version(runtime);
  gpu.cudnn = cudnn_version(cudnnGetVersion());
  gpu.facts = further_facts(properties, device);
  if (!gpu.driver) gpu.facts.missing["driver"] = "/proc/driver/nvidia/version does not tell";
  return gpu;
}

observer observer_of(int device, std::uint32_t iterations) {
  try {
    return {iterations, nvml(bus_id(device))};
  } catch (const unsupported& reason) {
    return {iterations, std::nullopt, reason.what()};
  }
}

namespace {

// Returns nothing if records were lost.
std::optional<std::vector<counters>> try_count(backend& target, const graph& g, const execution_plan& plan,
                                               std::uint32_t iterations, bool with_faults) {
  unified_memory_counter counter(with_faults);
  std::vector<counters> all;
  bool whole = true;
  execution_request request{.iterations = iterations};
  request.watch = [&](std::uint32_t done) {
    if (done == 0) return counter.start();
    const unified_memory_counts counts = counter.stop();
    whole = whole && is_complete(counts);
    all.push_back(counters_of(counts));
  };
  target.execute(g, plan, request);
  if (!whole) return std::nullopt;
  return all;
}

}  // namespace

std::vector<counters> count_on_gpu(backend& target, const graph& g, const execution_plan& plan,
                                   std::uint32_t iterations) {
  // If records were lost, runs again up to twice without counting faults, since CUPTI loses few others.
  for (const bool with_faults : {true, false, false}) {
    if (const auto all = try_count(target, g, plan, iterations, with_faults)) return *all;
  }
  throw unsupported("counting lost records");
}

measure::calibration calibrate_gpu(int device, const uvm_costs& given,
                                   const std::function<void(std::string_view)>& progress) {
  require_gpu(device);
  measure::bench on(device);
  return measure::calibrate(on, given, progress);
}

}  // namespace um
