// A session has the device, a stream for kernels, the handles of libraries, the chosen engines, and scratch
// memory to time candidates.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <functional>
#include <map>
#include <source_location>
#include <string>

#include "backends/cuda/cuda_options.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/kernels.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"
#include "um_allocators/handle.hpp"

namespace um {

using cudnn_handle = handle<cudnnHandle_t, &cudnnDestroy>;
using cublas_handle = handle<cublasLtHandle_t, &cublasLtDestroy>;

class session {
 public:
  session(int device, const cuda_options& options);

  int device() const { return device_; }
  const cuda_options& options() const { return options_; }
  // The rate of device memory, from its clock and the width of its bus.
  std::int64_t memory_bytes_per_s() const { return memory_bytes_per_s_; }
  kernels::launch_site compute() const { return {compute_.get(), multiprocessors_}; }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }  // bound to the compute stream
  cublasLtHandle_t cublas() const { return cublas_.get(); }

  // Returns the key of `signature` in the engine cache. GPU and library versions come first.
  std::string engine_key(const std::string& signature) const { return key_prefix_ + signature; }
  engine_cache& engines() { return engines_; }
  // Returns the engine for a key of the cache. Calls make() unless the engine is in memory: building it takes
  // up to a second. 1,000 engines are dropped before another is built, so a reference is valid until the next
  // call.
  const engine& cached_engine(const std::string& key, const std::function<engine()>& make);

  // The engine that won for a problem. The search for the same problem with another batch size begins with
  // it.
  struct precedent {
    std::string engine;
    std::int64_t images = 0;                  // of each part
    byte_count workspace_bytes = 0, cap = 0;  // of the engine; cap of the search that chose it
  };
  std::map<std::string, precedent>& precedents() { return precedents_; }

  // Returns device memory filled with pseudo-random values of a floating type, to time candidates on. The
  // next call overwrites it. Throws out_of_memory.
  std::byte* random_scratch(byte_count bytes, dtype type = dtype::f32);
  void release_scratch() { scratch_ = {}; }

 private:
  int device_;
  cuda_options options_;
  int multiprocessors_ = 1;
  std::int64_t memory_bytes_per_s_ = 1;
  cuda_stream compute_;
  cudnn_handle cudnn_;
  cublas_handle cublas_;
  std::string key_prefix_;
  engine_cache engines_;
  std::map<std::string, engine> engines_by_key_;
  std::map<std::string, precedent> precedents_;
  arena scratch_;  // grows to the largest request
};

// Returns the choice for `signature` within `workspace_cap`: from the engine cache, which may also have one
// for a larger cap that fits, else from `search`. Stores it as the choice for that cap, which later calls
// return.
engine_choice find_or_search(session& gpu, const std::string& signature, byte_count workspace_cap,
                             const std::string& version,
                             const std::function<bool(const engine_choice&)>& usable,
                             const std::function<engine_choice()>& search);

// Returns the median time of 3 to 20 calls within about 50 ms, after a first call that is not counted.
nanoseconds measure_time(session& gpu, const std::function<void()>& call);
// Returns the median time of `counted` calls, after `before` calls that are not counted.
nanoseconds median_time(session& gpu, const std::function<void()>& call, int before, int counted);

// Checks the status types of cuDNN and cuBLAS. um_allocators checks the runtime's.

void check(cudnnStatus_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

}  // namespace um
