// What every operator on a GPU needs: the device, one stream for kernels, the libraries' handles,
// the chosen engines and scratch memory to time candidates on.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "backends/cuda/cuda_options.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/kernels.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/handle.hpp"

namespace um {

using cudnn_handle = handle<cudnnHandle_t, &cudnnDestroy>;
using cublas_handle = handle<cublasLtHandle_t, &cublasLtDestroy>;

class session {
 public:
  session(int device, const cuda_options& options);

  int device() const { return device_; }
  const cuda_options& options() const { return options_; }
  // Of device memory, by its clock and the width of its bus.
  std::int64_t memory_bytes_per_s() const { return memory_bytes_per_s_; }
  kernels::launch_site compute() const { return {compute_.get(), multiprocessors_}; }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }  // bound to the compute stream
  cublasLtHandle_t cublas() const { return cublas_.get(); }

  // `signature` as it stands in the engine cache: with GPU and library versions in front.
  std::string engine_key(const std::string& signature) const { return key_prefix_ + signature; }
  engine_cache& engines() { return engines_; }
  // The engine for a key of the cache, made once: making one takes up to a second. So many are kept.
  const engine& made_once(const std::string& key, const std::function<engine()>& make);

  // By kind of problem the engine that the first of it was given: others of the kind begin their search with
  // it.
  std::map<std::string, std::string>& precedents() { return precedents_; }

  // Device memory filled with pseudo-random values of a floating type, to time candidates on; the
  // contents are lost with the next call. Throws out_of_memory.
  std::byte* scratch(byte_count bytes, dtype type = dtype::f32);
  void release_scratch() { scratch_ = {}; }

 private:
  int device_;
  cuda_options options_;
  int multiprocessors_ = 1;
  std::int64_t memory_bytes_per_s_ = 1;
  stream compute_;
  cudnn_handle cudnn_;
  cublas_handle cublas_;
  std::string key_prefix_;
  engine_cache engines_;
  std::map<std::string, engine> made_;
  std::map<std::string, std::string> precedents_;
  arena scratch_;
};

// The choice for `signature` within `workspace_cap` that the engine cache has, or that it has of a larger cap
// and fits; else what `search` finds. It is stored as the choice within that cap, and stands from then on.
engine_choice standing_choice(session& on, const std::string& signature, byte_count workspace_cap,
                              const std::string& version,
                              const std::function<bool(const engine_choice&)>& usable,
                              const std::function<engine_choice()>& search);

// Median time of one call, after a first call that does not count; between 3 and 20 calls within
// about 50 ms.
nanoseconds time_of(session& on, const std::function<void()>& call);
// Median time of `counted` calls, after `before` that do not count.
nanoseconds median_time(session& on, const std::function<void()>& call, int before, int counted);

}  // namespace um
