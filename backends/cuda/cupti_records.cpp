#include <cstring>

#include "backends/cuda/cupti_counters.hpp"
#include "trace/records.hpp"

namespace um {
namespace {

using tracing::counter_kind;
using tracing::unified_memory_record;

void add_bytes(migrated_bytes& to, const unified_memory_record& record) {
  to.total += record.value;
  to.by_cause.at(record.flags < to.by_cause.size() ? record.flags : 0) += record.value;
}

}  // namespace

void add_record(unified_memory_counts& to, const std::byte* at) {
  std::uint32_t kind = 0;
  std::memcpy(&kind, at, sizeof(kind));
  if (kind != unified_memory_record::of_kind) return;
  const unified_memory_record record = tracing::unified_memory_record_at(at);
  ++to.record_count;
  switch (record.counter) {
    case counter_kind::bytes_to_device:
      return add_bytes(to.to_device, record);
    case counter_kind::bytes_to_host:
      return add_bytes(to.to_host, record);
    case counter_kind::cpu_page_fault:
      ++to.cpu_faults;
      return;
    case counter_kind::gpu_page_fault:
      ++to.gpu_faults;
      to.gpu_fault_groups += record.value;
      to.faults_by_batch[record.end] += record.value;
      return;
    case counter_kind::thrashing:
      ++to.thrashing;
      return;
    case counter_kind::throttling:
      ++to.throttling;
      return;
    case counter_kind::remote_map:
      ++to.remote_maps;
      return;
    default:
      return;
  }
}

counters counters_of(const unified_memory_counts& counts) {
  const auto moved = [](const migrated_bytes& bytes, std::initializer_list<migration_cause> causes) {
    byte_count sum = 0;
    for (const migration_cause c : causes) sum += bytes.by_cause.at(static_cast<std::size_t>(c));
    return sum;
  };
  using enum migration_cause;
  counters all;
  if (counts.counts_faults) {
    all.faults = counts.gpu_fault_groups;
    all.fault_batches = counts.faults_by_batch.size();
  }
  if (moved(counts.to_device, {unknown}) == 0) {
    all.fault_to_device_bytes = moved(counts.to_device, {demand, tree, access_counter});
    all.prefetch_to_device_bytes = moved(counts.to_device, {user});
  }
  if (moved(counts.to_host, {unknown}) == 0) {
    all.plan_evict_bytes = moved(counts.to_host, {user});
    all.driver_evict_bytes = moved(counts.to_host, {eviction});
    if (all.driver_evict_bytes == 0) all.evicted_blocks = 0;
  }
  return all;
}

bool is_complete(const unified_memory_counts& counts) {
  const auto demanded = counts.to_device.by_cause.at(static_cast<std::size_t>(migration_cause::demand));
  const bool has_faults = demanded == 0 || !counts.counts_faults || !counts.faults_by_batch.empty();
  return counts.dropped_records == 0 && counts.lost_bytes == 0 && has_faults;
}

}  // namespace um
