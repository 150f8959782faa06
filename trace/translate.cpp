#include "trace/translate.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <utility>

namespace um::tracing {
namespace {

nanoseconds at(std::uint64_t time) {
  return static_cast<nanoseconds>(time);
}

std::string readable(const char* name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 && plain != nullptr ? plain : name;
  std::free(plain);
  return text;
}

const char* direction_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "host_to_device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "device_to_host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "device_to_device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "host_to_host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "peer_to_peer";
    default:
      return "copy";
  }
}

const char* memory_of(CUpti_ActivityMemoryKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return "pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return "pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
      return "device";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return "managed";
    default:
      return "other";
  }
}

template <class Record>
const Record& as_record(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

}  // namespace

void translator::add_kernel(const CUpti_ActivityKernel10& k) {
  if (k.start == 0 || k.end == 0) return recorder_.note_missing("some kernels: CUPTI gave no times of them");
  auto known = names_.find(k.name);
  if (known == names_.end()) known = names_.emplace(k.name, readable(k.name)).first;
  const kernel launch{at(k.start), at(k.end), k.deviceId, k.streamId, known->second};
  if (times_only_) return recorder_.add_timed(launch);
  recorder_.add(launch);
}

void translator::add_memory(const CUpti_ActivityMemory4& m) {
  if (m.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE)
    return recorder_.add(release{at(m.timestamp), m.address});
  std::vector<std::string> callers;
  if (const auto known = callers_.find(m.address); known != callers_.end()) {
    callers = std::move(known->second);
    callers_.erase(known);
  }
  recorder_.add(allocation{at(m.timestamp), m.address, m.bytes, m.deviceId, memory_of(m.memoryKind),
                           std::move(callers)});
}

void translator::note_callers(std::uint64_t address, std::vector<std::string> called) {
  callers_[address] = std::move(called);
}

void translator::add_marker(const CUpti_ActivityMarker2& m) {
  if ((m.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
    open_ranges_[m.id] = {at(m.timestamp), m.name != nullptr ? m.name : ""};
  } else if ((m.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0) {
    const auto begun = open_ranges_.find(m.id);
    if (begun == open_ranges_.end()) return;
    recorder_.add(range{begun->second.begin, at(m.timestamp), begun->second.name});
    open_ranges_.erase(begun);
  }
}

void translator::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return add_kernel(as_record<CUpti_ActivityKernel10>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& c = as_record<CUpti_ActivityMemcpy6>(record);
      return recorder_.add(copy{at(c.start), at(c.end), c.bytes, c.deviceId, direction_of(c.copyKind)});
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& s = as_record<CUpti_ActivityMemset4>(record);
      return recorder_.add(copy{at(s.start), at(s.end), s.bytes, s.deviceId, "memset"});
    }
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return add_memory(as_record<CUpti_ActivityMemory4>(record));
    case CUPTI_ACTIVITY_KIND_MARKER:
      return add_marker(as_record<CUpti_ActivityMarker2>(record));
    default:
      return;
  }
}

}  // namespace um::tracing
