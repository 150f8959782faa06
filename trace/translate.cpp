#include "trace/translate.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace um::tracing {
namespace {

nanoseconds time_of(std::uint64_t time) {
  return static_cast<nanoseconds>(time);
}

std::string demangled(const char* name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 && plain != nullptr ? plain : name;
  std::free(plain);
  return text;
}

// A value of CUPTI or the driver, and its name in a trace.
template <class Kind, std::size_t N>
const char* name_of_kind(const std::array<std::pair<Kind, const char*>, N>& names, std::uint64_t kind,
                         const char* otherwise) {
  const auto found =
      std::ranges::find(names, kind, [](const auto& row) { return static_cast<std::uint64_t>(row.first); });
  return found == names.end() ? otherwise : found->second;
}

constexpr std::array directions{std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, "host_to_device"},
                                std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, "device_to_host"},
                                std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, "device_to_device"},
                                std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, "host_to_host"},
                                std::pair{CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, "peer_to_peer"}};
constexpr std::array memory_kinds{std::pair{CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, "pageable"},
                                  std::pair{CUPTI_ACTIVITY_MEMORY_KIND_PINNED, "pinned"},
                                  std::pair{CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, "device"},
                                  std::pair{CUPTI_ACTIVITY_MEMORY_KIND_MANAGED, "managed"},
                                  std::pair{CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, "managed"}};
constexpr std::array advices{std::pair{CU_MEM_ADVISE_SET_READ_MOSTLY, "read_mostly"},
                             std::pair{CU_MEM_ADVISE_UNSET_READ_MOSTLY, "unset_read_mostly"},
                             std::pair{CU_MEM_ADVISE_SET_PREFERRED_LOCATION, "preferred_location"},
                             std::pair{CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, "unset_preferred_location"},
                             std::pair{CU_MEM_ADVISE_SET_ACCESSED_BY, "accessed_by"},
                             std::pair{CU_MEM_ADVISE_UNSET_ACCESSED_BY, "unset_accessed_by"}};

template <class Record>
const Record& as_record(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

std::uint32_t device_of(const CUmemLocation& at) {
  return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? static_cast<std::uint32_t>(at.id) : host;
}

struct call_batch {
  const CUdeviceptr* at = nullptr;
  const std::size_t* bytes = nullptr;
  std::size_t count = 0;
};

std::vector<hint> hints_of(const char* call, const call_batch& of, const CUmemLocation* locations,
                           const std::size_t* location_of, std::size_t location_count) {
  std::vector<hint> all;
  std::size_t location = 0;
  for (std::size_t i = 0; i < of.count; ++i) {
    while (location + 1 < location_count && location_of[location + 1] <= i) ++location;
    const std::uint32_t device = location_count > 0 ? device_of(locations[location]) : host;
    all.push_back({.call = call, .address = of.at[i], .bytes = of.bytes[i], .device = device, .callers = {}});
  }
  return all;
}

std::vector<hint> one_hint(const char* call, CUdeviceptr at, std::size_t bytes, std::uint32_t device) {
  return {{.call = call, .address = at, .bytes = bytes, .device = device, .callers = {}}};
}

template <class Parameters>
const Parameters& parameters_as(const void* parameters) {
  return *static_cast<const Parameters*>(parameters);
}

constexpr CUpti_CallbackId watched[] = {CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAdvise,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemAdvise_v2,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync_ptsz,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync,
                                        CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync_ptsz};

}  // namespace

void translator::add_kernel(const CUpti_ActivityKernel10& k) {
  if (k.start == 0 || k.end == 0) return recorder_.note_missing("some kernels: CUPTI gave no times of them");
  auto known = names_.find(k.name);
  if (known == names_.end()) known = names_.emplace(k.name, demangled(k.name)).first;
  const kernel launch{time_of(k.start), time_of(k.end), k.deviceId, k.streamId, known->second};
  if (times_only_) return recorder_.add_timed(launch);
  recorder_.add(launch);
}

void translator::add_memory(const CUpti_ActivityMemory4& m) {
  if (m.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
    return recorder_.add(release{time_of(m.timestamp), m.address});
  std::vector<std::string> callers;
  if (const auto known = callers_.find(m.address); known != callers_.end()) {
    callers = std::move(known->second);
    callers_.erase(known);
  }
  recorder_.add(allocation{time_of(m.timestamp), m.address, m.bytes, m.deviceId,
                           name_of_kind(memory_kinds, m.memoryKind, "other"), std::move(callers)});
}

void translator::add_marker(const CUpti_ActivityMarker2& m) {
  if ((m.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
    open_ranges_[m.id] = {time_of(m.timestamp), m.name != nullptr ? m.name : ""};
  } else if ((m.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0) {
    const auto begun = open_ranges_.find(m.id);
    if (begun == open_ranges_.end()) return;
    recorder_.add(range{begun->second.begin, time_of(m.timestamp), begun->second.name});
    open_ranges_.erase(begun);
  }
}

void translator::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return add_kernel(as_record<CUpti_ActivityKernel10>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& c = as_record<CUpti_ActivityMemcpy6>(record);
      return recorder_.add(copy{time_of(c.start), time_of(c.end), c.bytes, c.deviceId,
                                name_of_kind(directions, c.copyKind, "copy")});
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& s = as_record<CUpti_ActivityMemset4>(record);
      return recorder_.add(copy{time_of(s.start), time_of(s.end), s.bytes, s.deviceId, "memset"});
    }
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return add_memory(as_record<CUpti_ActivityMemory4>(record));
    case CUPTI_ACTIVITY_KIND_MARKER:
      return add_marker(as_record<CUpti_ActivityMarker2>(record));
    default:
      return;
  }
}

std::vector<hint> hints_of(CUpti_CallbackId call, const void* p) {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchAsync_params>(p);
      return one_hint("prefetch", a.devPtr, a.count,
                      static_cast<std::uint32_t>(a.dstDevice));  // the CPU is -1
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchAsync_v2_params>(p);
      return one_hint("prefetch", a.devPtr, a.count, device_of(a.location));
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemAdvise: {
      const auto& a = parameters_as<cuMemAdvise_params>(p);
      return one_hint(name_of_kind(advices, a.advice, "advice"), a.devPtr, a.count,
                      static_cast<std::uint32_t>(a.device));
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemAdvise_v2: {
      const auto& a = parameters_as<cuMemAdvise_v2_params>(p);
      return one_hint(name_of_kind(advices, a.advice, "advice"), a.devPtr, a.count, device_of(a.location));
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemPrefetchBatchAsync_params>(p);
      return hints_of("prefetch", {a.dptrs, a.sizes, a.count}, a.prefetchLocs, a.prefetchLocIdxs,
                      a.numPrefetchLocs);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemDiscardBatchAsync_params>(p);
      return hints_of("discard", {a.dptrs, a.sizes, a.count}, nullptr, nullptr, 0);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync:
    case CUPTI_DRIVER_TRACE_CBID_cuMemDiscardAndPrefetchBatchAsync_ptsz: {
      const auto& a = parameters_as<cuMemDiscardAndPrefetchBatchAsync_params>(p);
      return hints_of("discard_and_prefetch", {a.dptrs, a.sizes, a.count}, a.prefetchLocs, a.prefetchLocIdxs,
                      a.numPrefetchLocs);
    }
    default:
      return {};
  }
}

std::span<const CUpti_CallbackId> watched_calls() {
  return watched;
}

}  // namespace um::tracing
