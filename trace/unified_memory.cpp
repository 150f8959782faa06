#include "trace/unified_memory.hpp"

#include <cstring>

namespace um::tracing {
namespace {

nanoseconds at(std::uint64_t time) {
  return static_cast<nanoseconds>(time);
}

template <class Enum>
Enum as(std::uint32_t flags, Enum last) {
  return flags <= static_cast<std::uint32_t>(last) ? static_cast<Enum>(flags) : Enum{};
}

// The CPU's side has no number of its own: driver 580 gives it 0, as the first GPU.
migration moved(const unified_memory_record& r, std::uint32_t source, std::uint32_t destination) {
  return {
      at(r.start), at(r.end), r.address, r.value, source, destination, as(r.flags, cause::access_counter)};
}

}  // namespace

unified_memory_record unified_memory_record_at(const void* record) {
  unified_memory_record r;
  std::memcpy(&r, record, sizeof(r));
  return r;
}

void add(recorder& to, const unified_memory_record& r) {
  switch (r.counter) {
    case counter_kind::bytes_to_device:
      return to.add(moved(r, host, r.destination));
    case counter_kind::bytes_to_host:
      return to.add(moved(r, r.source, host));
    case counter_kind::bytes_between_devices:
      return to.add(moved(r, r.source, r.destination));
    case counter_kind::cpu_page_fault:
      return to.add(cpu_fault{at(r.start), r.address, r.value, as(r.flags, access::prefetch)});
    case counter_kind::gpu_page_fault:
      return to.add(
          gpu_fault{at(r.start), at(r.end), r.address, r.value, r.source, as(r.flags, access::prefetch)});
    case counter_kind::thrashing:
      return to.add(contended{at(r.start), r.address, r.value, 0, contention::thrashing});
    case counter_kind::throttling:
      return to.add(contended{at(r.start), r.address, 0, r.source, contention::throttling});
    case counter_kind::remote_map:
      return to.add(contended{at(r.start), r.address, r.value, r.source, contention::remote_map});
  }
}

}  // namespace um::tracing
