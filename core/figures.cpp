#include "core/figures.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace um {
namespace {

using enum figure_source;
constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
// Limits of times and sizes per page, block or call, so that sums over an iteration stay far below 2^63.
constexpr std::int64_t max_time = 1'000'000'000, max_bytes = std::int64_t{1} << 60;

constexpr std::array table = std::to_array<figure>({
    {"device_bytes", "bytes", given_by_maker, &machine::device_bytes, 1, max_bytes},
    {"host_bytes", "bytes", given_by_maker, &machine::host_bytes, 1, max_bytes},
    {"multiprocessors", "", given_by_maker, &machine::multiprocessors, 1, 1 << 20},
    {"fp32_flops_per_s", "operations/s", measured, &machine::fp32_flops_per_s, 1},
    {"tf32_flops_per_s", "operations/s", measured, &machine::tf32_flops_per_s, 0, any, true},
    {"bf16_flops_per_s", "operations/s", measured, &machine::bf16_flops_per_s, 0, any, true},
    {"device_bytes_per_s", "bytes/s", measured, &machine::device_bytes_per_s, 1},
    {"link_to_device_bytes_per_s", "bytes/s", measured, &machine::link_to_device_bytes_per_s, 1},
    {"link_to_host_bytes_per_s", "bytes/s", measured, &machine::link_to_host_bytes_per_s, 1},
    {"link_both_bytes_per_s", "bytes/s", measured, &machine::link_both_bytes_per_s, 1},
    {"launch_ns", "ns", measured, &machine::launch_ns, 0, max_time},
    {"copy_ns", "ns", measured, &machine::copy_ns, 0, max_time},
    {"engine_row_bytes", "bytes", fitted, &machine::engine_row_bytes, 0, max_bytes, true},
    {"slice_ns", "ns", fitted, &machine::slice_ns, 0, max_time, true},
    {"beside_copy_percent", "percent", fitted, &machine::beside_copy_percent, 0, 100, true},
    {"uvm.interrupt_ns", "ns", measured, &uvm_costs::interrupt_ns, 0, max_time},
    {"uvm.batch_ns", "ns", measured, &uvm_costs::batch_ns, 0, max_time},
    {"uvm.fault_ns", "ns", measured, &uvm_costs::fault_ns, 0, max_time},
    {"uvm.batch_granules", "", measured, &uvm_costs::batch_granules, 1, 256},
    {"uvm.read_batches_percent", "percent", measured, &uvm_costs::read_batches_percent, 100, 10'000, true},
    {"uvm.service_ns", "ns", measured, &uvm_costs::service_ns, 0, max_time},
    {"uvm.chunk_ns", "ns", measured, &uvm_costs::chunk_ns, 0, max_time, true},
    {"uvm.first_visit_ns", "ns", measured, &uvm_costs::first_visit_ns, 0, max_time},
    {"uvm.granule_ns", "ns", measured, &uvm_costs::granule_ns, 0, max_time, true},
    {"uvm.issue_copy_ns", "ns", measured, &uvm_costs::issue_copy_ns, 0, max_time, true},
    {"uvm.host_unmap_ns", "ns", measured, &uvm_costs::host_unmap_ns, 0, max_time},
    {"uvm.page_fault_ns", "ns", measured, &uvm_costs::page_fault_ns, 0, max_time},
    {"uvm.read_mostly_write_ns", "ns", fitted, &uvm_costs::read_mostly_write_ns, 0, max_time, true},
    {"uvm.migrate_copy_ns", "ns", measured, &uvm_costs::migrate_copy_ns, 0, max_time},
    {"uvm.host_chunk_bytes", "bytes", measured, &uvm_costs::host_chunk_bytes, 1},
    {"uvm.page_copy_ns", "ns", measured, &uvm_costs::page_copy_ns, 0, max_time},
    {"uvm.evict_ns", "ns", measured, &uvm_costs::evict_ns, 0, max_time},
    {"uvm.host_populate_ns", "ns", measured, &uvm_costs::host_populate_ns, 0, max_time},
    {"uvm.host_clear_ns", "ns", measured, &uvm_costs::host_clear_ns, 0, max_time, true},
    {"uvm.host_map_page_ns", "ns", measured, &uvm_costs::host_map_page_ns, 0, max_time},
    {"uvm.host_fault_ns", "ns", measured, &uvm_costs::host_fault_ns, 0, max_time},
    {"uvm.prefetch_call_ns", "ns", measured, &uvm_costs::prefetch_call_ns, 0, max_time},
    {"uvm.prefetch_queued_ns", "ns", measured, &uvm_costs::prefetch_queued_ns, 0, max_time, true},
    {"uvm.prefetch_to_host_call_ns", "ns", measured, &uvm_costs::prefetch_to_host_call_ns, 0, max_time},
    {"uvm.prefetch_to_host_beside_percent", "percent", measured, &uvm_costs::prefetch_to_host_beside_percent,
     1, 100, true},
    {"uvm.prefetch_to_host_beside_faults_percent", "percent", measured,
     &uvm_costs::prefetch_to_host_beside_faults_percent, 1, 100, true},
    {"uvm.faults_beside_prefetch_percent", "percent", measured, &uvm_costs::faults_beside_prefetch_percent, 1,
     100, true},
    {"uvm.prefetch_block_ns", "ns", measured, &uvm_costs::prefetch_block_ns, 0, max_time},
    {"uvm.populate_ns", "ns", measured, &uvm_costs::populate_ns, 0, max_time, true},
    {"uvm.discard_block_ns", "ns", measured, &uvm_costs::discard_block_ns, 0, max_time},
    {"uvm.remote_read_bytes_per_s", "bytes/s", measured, &uvm_costs::remote_read_bytes_per_s, 1},
    {"uvm.remote_write_bytes_per_s", "bytes/s", measured, &uvm_costs::remote_write_bytes_per_s, 1},
    {"uvm.access_counter_threshold", "", measured, &uvm_costs::access_counter_threshold},
    {"uvm.faults_of_page", "", fitted, &uvm_costs::faults_of_page, 1, 256, true},
    {"uvm.sparse_granules", "", fitted, &uvm_costs::sparse_granules, 1, 32, true},
    {"uvm.unmap_run_granules", "", fitted, &uvm_costs::unmap_run_granules, 1, 32, true},
    {"uvm.chunk_again_percent", "percent", fitted, &uvm_costs::chunk_again_percent, 0, 100, true},
    {"uvm.eviction_call_bytes", "bytes", fitted, &uvm_costs::eviction_call_bytes, 0, max_bytes, true},
    {"uvm.eviction_gives_way_ns", "ns", fitted, &uvm_costs::eviction_gives_way_ns, 0, 1'000'000'000, true},
    {"uvm.twin_copy_percent", "percent", fitted, &uvm_costs::twin_copy_percent, 1, 100, true},
});

// Calls `use` with a reference to the machine's member for that figure.
template <class Machine, class Use>
void with_member(Machine& m, const figure& f, Use use) {
  std::visit(
      [&]<class Owner, class Value>(Value Owner::* member) {
        if constexpr (std::is_same_v<Owner, machine>) {
          use(m.*member);
        } else {
          use(m.uvm.*member);
        }
      },
      f.member);
}

}  // namespace

std::span<const figure> figures() {
  return table;
}

std::int64_t value_of(const machine& m, const figure& f) {
  std::int64_t value = 0;
  with_member(m, f, [&](const auto& member) { value = static_cast<std::int64_t>(member); });
  return value;
}

void set_value(machine& m, const figure& f, std::int64_t value) {
  with_member(m, f,
              [&](auto& member) { member = static_cast<std::remove_reference_t<decltype(member)>>(value); });
}

namespace {

// `fast`: times at their minimum, rates and shares at their maximum; otherwise the opposite.
machine with_figures_at_bounds(machine m, bool fast) {
  for (const uncertain_figure& w : m.uncertain_figures) {
    const auto f =
        std::find_if(table.begin(), table.end(), [&](const figure& x) { return x.name == w.name; });
    if (f == table.end()) continue;
    const bool larger_is_slower = f->unit == "ns";
    set_value(m, *f, larger_is_slower == fast ? w.min_value : w.max_value);
  }
  return m;
}

}  // namespace

machine with_fastest_figures(machine m) {
  return with_figures_at_bounds(std::move(m), true);
}

machine with_slowest_figures(machine m) {
  return with_figures_at_bounds(std::move(m), false);
}

}  // namespace um
