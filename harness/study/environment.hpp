// The environment in which records were made: program, host and GPU.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "harness/io/text.hpp"

namespace um {

// The version "0.2.0+<commit>" at build time, or "0.2.0+unknown" outside a git checkout.
std::string version_text();
// "GNU 12.2.0".
std::string compiler_text();

using named_facts = std::map<std::string, std::string>;

// Further facts that affect times, by name (docs/records.md). `missing` has the reasons why facts are
// unknown.
struct fact_sheet {
  named_facts known, missing;
  void add(const std::string& name, const std::optional<std::string>& value, const std::string& why_not) {
    if (value && !value->empty()) {
      known[name] = one_line(*value);
    } else {
      missing[name] = one_line(why_not);
    }
  }
  friend bool operator==(const fact_sheet&, const fact_sheet&) = default;
};

struct gpu_facts {
  int device = 0;
  std::string name;
  std::optional<std::string> driver;  // the kernel module's version
  byte_count memory_bytes = 0;
  std::optional<byte_count> free_bytes;  // at the time of the query; not written to files
  std::string compute_capability;
  bool concurrent_managed_access = false, pageable_memory_access = false;
  std::string cuda_driver, cuda_runtime, cudnn;  // versions
  fact_sheet facts;
};

struct host_facts {
  std::optional<std::string> os, kernel, cpu;
  std::optional<std::uint64_t> cores;  // cores that this process may use
  std::optional<byte_count> memory_bytes, cgroup_limit_bytes;
  fact_sheet facts;
};

struct environment {
  std::string umbench, compiler;
  bool has_cuda_backend = false;
  std::string created;  // UTC, ISO 8601
  host_facts host;
  std::optional<gpu_facts> gpu;
  std::optional<std::map<std::string, std::string>> nvidia_uvm;  // parameters of the module nvidia_uvm
};

}  // namespace um
