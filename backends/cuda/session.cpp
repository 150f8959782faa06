#include "backends/cuda/session.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/engine_trial.hpp"
#include "backends/cuda/executor/operator_calls.hpp"
#include "core/quantiles.hpp"

namespace um {
namespace {

int select_device(int device) {
  require_gpu(device);
  check(cudaSetDevice(device));
  return device;
}

cudnn_handle make_cudnn(cudaStream_t stream) {
  cudnnHandle_t raw = nullptr;
  check(cudnnCreate(&raw));
  cudnn_handle owner(raw);
  check(cudnnSetStream(raw, stream));
  return owner;
}

cublas_handle make_cublas() {
  cublasLtHandle_t raw = nullptr;
  check(cublasLtCreate(&raw));
  return cublas_handle(raw);
}

std::string gpu_name(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

nanoseconds median_of_calls(session& gpu, const std::function<void()>& call, int calls) {
  std::vector<cuda_event> marks;
  for (int i = 0; i <= calls; ++i) marks.push_back(make_event(event_use::timing));
  check(cudaEventRecord(marks[0].get(), gpu.compute().stream));
  for (std::size_t i = 1; i < marks.size(); ++i) {
    call();
    check(cudaEventRecord(marks[i].get(), gpu.compute().stream));
  }
  check(cudaEventSynchronize(marks.back().get()));
  std::vector<double> each;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[i - 1].get(), marks[i].get()));
    each.push_back(ms);
  }
  return static_cast<nanoseconds>(median_of(std::move(each)) * 1e6);
}

// Times brief calls one after the other in a graph, as an iteration launches them. Timed one by one between
// events, each takes 3 to 5 us longer on H100 and H200, a tenth of a step of DenseNet-121 in bf16.
nanoseconds median_in_graph(session& gpu, const std::function<void()>& call, int calls) {
  constexpr nanoseconds max_brief_time = 200'000;
  const nanoseconds between_events = median_of_calls(gpu, call, calls);
  if (calls == 1 || between_events > max_brief_time) return between_events;
  const cudaStream_t on = gpu.compute().stream;
  const recording all = record_graph(on, [&] {
    for (int i = 0; i < calls; ++i) call();
  });
  if (!all) return between_events;
  constexpr int launches = 3;
  const auto launch = [&] { check(cudaGraphLaunch(all.get(), on)); };
  return std::max<nanoseconds>(median_of_calls(gpu, launch, launches) / calls, 1);
}

std::int64_t bandwidth_of(int device) {
  const std::int64_t khz = device_attribute(cudaDevAttrMemoryClockRate, device);
  const std::int64_t bits = device_attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  return std::max<std::int64_t>(2 * khz * 1000 * bits / 8,
                                1);  // double data rate: two transfers a clock cycle
}

}  // namespace

session::session(int device, const cuda_options& options)
    : device_(select_device(device)),
      options_(options),
      multiprocessors_(device_attribute(cudaDevAttrMultiProcessorCount, device)),
      memory_bytes_per_s_(bandwidth_of(device)),
      compute_(make_stream()),
      cudnn_(make_cudnn(compute_.get())),
      cublas_(make_cublas()),
      key_prefix_(gpu_name(device) + " | cudnn " + std::to_string(cudnnGetVersion()) + " | cublaslt " +
                  std::to_string(cublasLtGetVersion()) + " | trials in graphs | "),
      engines_(options.engine_cache.empty() ? standard_engine_cache() : options.engine_cache) {}

const engine& session::cached_engine(const std::string& key, const std::function<engine()>& make) {
  constexpr std::size_t max_engines = 1000;
  const auto known = engines_by_key_.find(key);
  if (known != engines_by_key_.end()) return known->second;
  engine fresh = make();
  if (engines_by_key_.size() >= max_engines) engines_by_key_.clear();
  return engines_by_key_.emplace(key, std::move(fresh)).first->second;
}

std::byte* session::random_scratch(byte_count bytes, dtype type) {
  if (scratch_.bytes() < bytes) {
    scratch_ = {};
    scratch_ = device_arena(round_up(bytes, managed_block));
  }
  kernels::fill_random(compute(), scratch_.data(), static_cast<std::int64_t>(bytes / element_bytes(type)),
                       type, 1);
  return scratch_.data();
}

engine_choice find_or_search(session& gpu, const std::string& signature, byte_count workspace_cap,
                             const std::string& version,
                             const std::function<bool(const engine_choice&)>& usable,
                             const std::function<engine_choice()>& search) {
  const std::string problem = gpu.engine_key(signature), key = engine_key(problem, workspace_cap, version);
  const auto known = gpu.engines().find(key);
  if (known && usable(*known)) return *known;
  for (const engine_choice& other : gpu.engines().find_within(problem, workspace_cap, version)) {
    if (usable(other)) return gpu.engines().store(key, other, known);
  }
  return gpu.engines().store(key, search(), known);
}

nanoseconds median_time(session& gpu, const std::function<void()>& call, int before, int counted) {
  for (int i = 0; i < before; ++i) call();
  return median_in_graph(gpu, call, counted);
}

nanoseconds measure_time(session& gpu, const std::function<void()>& call) {
  constexpr nanoseconds span = 50'000'000;
  const nanoseconds first = median_time(gpu, call, 0, 1);
  if (first > very_long_call) return first;
  const nanoseconds once = std::max<nanoseconds>(median_time(gpu, call, 0, 1), 1);
  return median_in_graph(gpu, call, static_cast<int>(std::clamp<nanoseconds>(span / once, 3, 20)));
}

void check(cudnnStatus_t status, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string meaning = cudnnGetErrorString(status);
  if (status == CUDNN_STATUS_ALLOC_FAILED) throw out_of_memory(error_text(where, "cuDNN", meaning));
  throw cuda_error(error_text(where, "cuDNN", meaning));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string meaning = cublasLtGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw out_of_memory(error_text(where, "cuBLASLt", meaning));
  throw cuda_error(error_text(where, "cuBLASLt", meaning));
}

}  // namespace um
