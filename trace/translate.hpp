// Translates CUPTI's activity records into those of records.hpp, except for those of Unified Memory
// (recorder.hpp). The layouts of CUDA 12 and 13 have the same beginning.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/recorder.hpp"
#include "trace/records.hpp"

namespace um::tracing {

class translator {
 public:
  // With `times_only` it records only the times of launches.
  explicit translator(recorder& to, bool times_only = false) : recorder_(to), times_only_(times_only) {}

  // Ignores all other kinds.
  void add(const CUpti_Activity& record);
  // Keeps the callers of a managed allocation until CUPTI's record of it arrives.
  void note_callers(std::uint64_t address, std::vector<std::string> called) {
    callers_[address] = std::move(called);
  }

 private:
  void add_kernel(const CUpti_ActivityKernel10& k);
  void add_memory(const CUpti_ActivityMemory4& m);
  void add_marker(const CUpti_ActivityMarker2& m);

  struct open_range {
    nanoseconds begin = 0;
    std::string name;
  };
  recorder& recorder_;
  bool times_only_;
  std::unordered_map<const char*, std::string> names_;         // demangled names of kernels
  std::unordered_map<std::uint32_t, open_range> open_ranges_;  // by the marker's id
  std::unordered_map<std::uint64_t, std::vector<std::string>> callers_;
};

// Calls of the CUDA driver API that are about managed memory.

// cuMemAllocManaged, and every prefetch, advice and discard.
std::span<const CUpti_CallbackId> watched_calls();

// The hints that such a call gives, one for each of its ranges, without times and callers; empty for other
// calls. `parameters` are CUPTI's (generated_cuda_meta.h).
std::vector<hint> hints_of(CUpti_CallbackId call, const void* parameters);

}  // namespace um::tracing
