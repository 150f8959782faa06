#include "measure/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/machine.hpp"
#include "measure/calibration_sizes.hpp"

namespace um::measure {
namespace {

constexpr double as_double(byte_count n) {
  return static_cast<double>(n);
}
// The driver fetches at most 256 faults at a time [uvm_perf_fault_batch_count].
constexpr double full_batch = 256, granules_in_block = 32;

constexpr double blocks_in(byte_count bytes) {
  return as_double(bytes / managed_block);
}

// Position `which` of `of` samples, where `of` is the largest number of samples of a reading. In readings
// with fewer samples it means the proportional position.
struct sample_position {
  std::size_t which = 0, of = 1;
};

// Gives every reading at one sample position, or its median without one. Throws std::out_of_range for a
// reading that is missing.
class readings_view {
 public:
  readings_view(const readings& all, const uvm_costs& given, std::optional<sample_position> at)
      : all_(all), given_(given), at_(at) {}

  double faults_of_page() const { return static_cast<double>(given_.faults_of_page); }
  double sparse_granules() const { return static_cast<double>(given_.sparse_granules); }

  // The sample of that name at the position, or the median of all.
  double operator()(std::string_view name) const {
    const std::vector<double>& values = readings_of(name);
    return at_ ? values[at_->which * values.size() / at_->of] : median_of(values);
  }
  // The median of a difference of two readings that were taken together. It leaves out the half of the
  // samples with the largest sums of the two, which disturbances have distorted.
  double median_of_calmer_half(std::string_view difference, std::string_view one,
                               std::string_view other) const {
    if (at_) return (*this)(difference);
    const std::vector<double>&apart = readings_of(difference), &a = readings_of(one), &b = readings_of(other);
    std::vector<double> sums;
    for (std::size_t i = 0; i < apart.size(); ++i) sums.push_back(a.at(i) + b.at(i));
    const double most = median_of(sums);
    std::vector<double> kept;
    for (std::size_t i = 0; i < apart.size(); ++i) {
      if (sums[i] <= most) kept.push_back(apart[i]);
    }
    return median_of(std::move(kept));
  }

 private:
  const std::vector<double>& readings_of(std::string_view name) const {
    const auto at = all_.find(name);
    if (at == all_.end() || at->second.empty()) throw std::out_of_range(std::string(name));
    return at->second;
  }

  const readings& all_;
  const uvm_costs& given_;
  std::optional<sample_position> at_;
};

double bytes_per_s(byte_count bytes, double ns) {
  return as_double(bytes) * 1e9 / ns;
}
double link_to_device_rate(const readings_view& v) {
  return bytes_per_s(link_bytes, v("link_to_device"));
}
double link_to_host_rate(const readings_view& v) {
  return bytes_per_s(link_bytes, v("link_to_host"));
}
double ns_at_rate(byte_count bytes, double rate) {
  return as_double(bytes) * 1e9 / rate;
}

// The function of a figure has the figure's name; core/machine.hpp says what each figure is.

// --- movements ---
double migrate_copy_ns(const readings_view& v) {
  return v("prefetch_in_1GiB") / blocks_in(GiB) - ns_at_rate(managed_block, link_to_device_rate(v));
}
double moved_block_ns(const readings_view& v) {
  return migrate_copy_ns(v) + ns_at_rate(managed_block, link_to_device_rate(v));
}
double prefetch_block_ns(const readings_view& v) {
  return v("prefetch_there_1GiB") / (2 * blocks_in(GiB));
}
double populate_ns(const readings_view& v) {
  return (v("prefetch_in_discarded") - v("prefetch_there_1GiB")) / blocks_in(GiB);
}
// The time to give a block its chunk of device memory.
double chunk_ns(const readings_view& v) {
  return v("prefetch_in_new") / blocks_in(stream_bytes) - v("prefetch_in_discarded") / blocks_in(GiB);
}
double host_map_page_ns(const readings_view& v) {
  return (v("prefetch_out_1GiB") / blocks_in(GiB) - 2 * prefetch_block_ns(v)) /
         as_double(managed_block / page);
}
double host_populate_ns(const readings_view& v) {
  return v.median_of_calmer_half("out_new_beyond_again", "prefetch_out_new", "prefetch_out_again") /
         blocks_in(populated_bytes);
}
double host_clear_ns(const readings_view& v) {
  return (v("prefetch_out_cleared") - v("prefetch_out_new")) / blocks_in(populated_bytes);
}
double host_fault_ns(const readings_view& v) {
  return v("cpu_touches") / blocks_in(touched_bytes) - ns_at_rate(granule, link_to_host_rate(v)) -
         migrate_copy_ns(v) - as_double(granule / page) * host_map_page_ns(v);
}

double host_unmap_ns(const readings_view& v) {
  return (v("sparse_mapped") - v("sparse_unmapped")) / blocks_in(sparse_bytes) / (granules_in_block / 2.0);
}

// --- calls ---
// The time of a prefetch of 64 KiB to the device without its copy.
double prefetch_overhead_ns(const readings_view& v) {
  return v("prefetch_in_64KiB") - ns_at_rate(granule, link_to_device_rate(v)) - migrate_copy_ns(v);
}
double prefetch_call_ns(const readings_view& v) {
  return prefetch_overhead_ns(v) - prefetch_block_ns(v) - chunk_ns(v) - host_unmap_ns(v);
}
double prefetch_queued_ns(const readings_view& v) {
  static_assert(queued_prefetch_bytes == managed_block, "one walk a call");
  return v("prefetch_in_calls") / as_double(stream_bytes / queued_prefetch_bytes) - moved_block_ns(v) -
         prefetch_overhead_ns(v);
}
double prefetch_to_host_call_ns(const readings_view& v) {
  return v("prefetch_out_64KiB") - ns_at_rate(granule, link_to_host_rate(v)) - migrate_copy_ns(v) -
         prefetch_block_ns(v) - as_double(granule / page) * host_map_page_ns(v);
}
// The percentage of its speed that a transfer keeps while another runs. Assumes that it runs at full speed
// once the other has ended.
double kept_speed_percent(double alone, double beside, double other) {
  const double together = std::min(beside, other);
  return std::clamp(100 * (alone - beside + together) / together, 1.0, 100.0);
}
double prefetch_to_host_beside_percent(const readings_view& v) {
  return kept_speed_percent(v("out_alone"), v("both_out"), v("both_in"));
}
double prefetch_to_host_beside_faults_percent(const readings_view& v) {
  return kept_speed_percent(v("evict_alone"), v("evict_beside_read"), v("read_beside_evict"));
}
double faults_beside_prefetch_percent(const readings_view& v) {
  return kept_speed_percent(v("read_alone"), v("read_beside_evict"), v("evict_beside_read"));
}

// --- faults ---
double batches_of_block(const readings_view& v) {
  return std::max(1.0, v("batches_write") / blocks_in(stream_bytes));
}
double read_batches_percent(const readings_view& v) {
  return std::max(100.0, 100 * v("batches_read") / v("batches_write"));
}
// The granules that a batch of faults requests, from the number of batches that fill a block.
// core/machine.hpp has the table.
double granules_of_batch(const readings_view& v) {
  constexpr std::array<double, 6> by_batches{24, 12, 6, 3, 2, 1};
  const auto batches = static_cast<std::size_t>(std::lround(batches_of_block(v)));
  return by_batches[std::min(batches, by_batches.size()) - 1];
}
// The number of batches that fill a block, limited to the values that granules_of_batch() distinguishes.
double batches_by_granules(const readings_view& v) {
  return static_cast<double>(std::min(std::lround(batches_of_block(v)), 6L));
}

// Four measurements give four sums of the costs of a fault: an isolated fault in a block that has its chunk;
// one place in every such block; a block touched in every granule, of which half are requested; a block that
// a streaming kernel fills. The costs depend on each other, so they are computed by fixed-point iteration.
struct fault_parts {
  double batch = 0, fault = 0, service = 0, granule = 0;  // nanoseconds
};
fault_parts parts_of_fault(const readings_view& v) {
  const double isolated = v("isolated_again");
  const double sparse = (v("many_again") - v("few_again")) / (many_blocks - few_blocks);
  const double dense = v("granules_nowhere") / blocks_in(sparse_bytes);
  const double stream = v("first_touch_write") / blocks_in(stream_bytes);
  const double batches = batches_by_granules(v);
  const double dense_faults = v.faults_of_page() * v.sparse_granules();
  fault_parts p;
  for (int i = 0; i < 50; ++i) {
    const double full = p.batch + full_batch * p.fault;
    const double first =
        sparse - v.faults_of_page() * (p.fault + p.batch / full_batch);  // service and granule together
    p.granule = (dense - dense_faults / full_batch * full - first - chunk_ns(v)) / (granules_in_block - 1);
    p.service = first - p.granule;
    p.batch = isolated - first - p.fault;
    const double stream_full = (stream - chunk_ns(v) - granules_in_block * p.granule) / batches - p.service;
    p.fault = (stream_full - p.batch) / full_batch;
  }
  return p;
}
double issue_copy_ns(const readings_view& v) {
  const double copies = 2.0 * (v.sparse_granules() + granules_in_block / 2.0);
  return (v("granules_unmapped") + v("sparse_unmapped") - v("granules_nowhere") - v("sparse_nowhere")) /
         blocks_in(sparse_bytes) / copies;
}
double evict_ns(const readings_view& v) {
  return std::max(0.0, prefetch_to_host_call_ns(v)) + std::max(0.0, parts_of_fault(v).service);
}

double first_visit_ns(const readings_view& v) {
  return v.median_of_calmer_half("cold_beyond_mapped", "isolated_cold", "isolated_mapped");
}

// --- figures that depend on whether the driver does something ---

// The host's chunks are known to be 2 MiB if a block's copy takes less time than 512 copies of a page.
// Otherwise their size is unknown: throws.
double host_chunk_bytes(const readings_view& v) {
  constexpr double fastest_page_copy = 30;
  if (migrate_copy_ns(v) / as_double(managed_block / page) >= fastest_page_copy)
    throw std::out_of_range("prefetches at the link's rate");
  return as_double(managed_block);
}
double page_copy_ns(const readings_view& v) {
  static_cast<void>(host_chunk_bytes(v));
  return 0;
}
// 0 if access counters do not move data that is read over the link repeatedly: every granule was read at
// least 512 times in each round.
double access_counter_threshold(const readings_view& v) {
  const double there = ns_at_rate(stream_bytes, 4 * link_to_device_rate(v));  // several times the link's rate
  if (v("remote_read_again") < there) throw std::out_of_range("data that stays where it is");
  return 0;
}
double flops_per_s(double ns) {
  constexpr double side = static_cast<double>(product_side);
  return 2 * side * side * side * 1e9 / ns;
}

struct figure {
  const char* name;
  double (*value)(const readings_view&);
  double min_value = 0;  // a smaller value is invalid; rates cannot be 0
};

constexpr std::array machine_figures = std::to_array<figure>({
    {"device_bytes", [](const readings_view& v) { return v("free_device_bytes"); }, 1},
    {"multiprocessors", [](const readings_view& v) { return v("multiprocessors"); }, 1},
    {"fp32_flops_per_s", [](const readings_view& v) { return flops_per_s(v("product_fp32")); }, 1},
    {"tf32_flops_per_s", [](const readings_view& v) { return flops_per_s(v("product_tf32")); }, 1},
    {"bf16_flops_per_s", [](const readings_view& v) { return flops_per_s(v("product_bf16")); }, 1},
    {"device_bytes_per_s", [](const readings_view& v) { return bytes_per_s(2 * GiB, v("device_copy")); }, 1},
    {"link_to_device_bytes_per_s", &link_to_device_rate, 1},
    {"link_to_host_bytes_per_s", &link_to_host_rate, 1},
    {"link_both_bytes_per_s",
     [](const readings_view& v) { return bytes_per_s(2 * link_bytes, v("link_both")); }, 1},
    {"launch_ns", [](const readings_view& v) { return v("launches") / launches; }},
    {"copy_ns",
     [](const readings_view& v) {
       return v("small_copies") / copies - ns_at_rate(small_copy, link_to_device_rate(v));
     }},
});

constexpr std::array uvm_figures = std::to_array<figure>({
    {"uvm.interrupt_ns", [](const readings_view& v) { return v("isolated_idle") - v("isolated_mapped"); }},
    {"uvm.batch_ns", [](const readings_view& v) { return parts_of_fault(v).batch; }},
    {"uvm.fault_ns", [](const readings_view& v) { return parts_of_fault(v).fault; }},
    {"uvm.batch_granules", &granules_of_batch, 1},
    {"uvm.read_batches_percent", &read_batches_percent, 100},
    {"uvm.service_ns", [](const readings_view& v) { return parts_of_fault(v).service; }},
    {"uvm.chunk_ns", &chunk_ns},
    {"uvm.granule_ns", [](const readings_view& v) { return parts_of_fault(v).granule; }},
    {"uvm.first_visit_ns", &first_visit_ns},
    {"uvm.issue_copy_ns", &issue_copy_ns},
    {"uvm.host_unmap_ns", &host_unmap_ns},
    {"uvm.page_fault_ns",
     [](const readings_view& v) { return v("refill") / as_double(refilled_bytes / page); }},
    {"uvm.migrate_copy_ns", &migrate_copy_ns},
    {"uvm.host_chunk_bytes", &host_chunk_bytes, 1},
    {"uvm.page_copy_ns", &page_copy_ns},
    {"uvm.evict_ns", &evict_ns},
    {"uvm.host_populate_ns", &host_populate_ns},
    {"uvm.host_clear_ns", &host_clear_ns},
    {"uvm.host_map_page_ns", &host_map_page_ns},
    {"uvm.host_fault_ns", &host_fault_ns},
    {"uvm.prefetch_call_ns", &prefetch_call_ns},
    {"uvm.prefetch_queued_ns", &prefetch_queued_ns},
    {"uvm.prefetch_to_host_call_ns", &prefetch_to_host_call_ns},
    {"uvm.prefetch_to_host_beside_percent", &prefetch_to_host_beside_percent, 1},
    {"uvm.prefetch_to_host_beside_faults_percent", &prefetch_to_host_beside_faults_percent, 1},
    {"uvm.faults_beside_prefetch_percent", &faults_beside_prefetch_percent, 1},
    {"uvm.prefetch_block_ns", &prefetch_block_ns},
    {"uvm.populate_ns", &populate_ns},
    {"uvm.discard_block_ns", [](const readings_view& v) { return v("discard_1GiB") / blocks_in(GiB); }},
    {"uvm.remote_read_bytes_per_s",
     [](const readings_view& v) { return bytes_per_s(stream_bytes, v("remote_read")); }, 1},
    {"uvm.remote_write_bytes_per_s",
     [](const readings_view& v) { return bytes_per_s(stream_bytes, v("remote_write")); }, 1},
    {"uvm.access_counter_threshold", &access_counter_threshold},
});

// Figures that cannot be measured without oversubscription, which calibration avoids.
constexpr std::string_view inferred_figure = "uvm.evict_ns";

// Costs that are derived together: if one is missing, all are.
constexpr std::array<std::string_view, 7> fault_parts_names{
    "uvm.read_batches_percent", "uvm.batch_ns",   "uvm.fault_ns", "uvm.batch_granules",
    "uvm.service_ns",           "uvm.granule_ns", "uvm.evict_ns"};
bool is_part_of_fault_time(std::string_view name) {
  return std::find(fault_parts_names.begin(), fault_parts_names.end(), name) != fault_parts_names.end();
}
void drop_parts_of_fault(figures& from) {
  for (const std::string_view name : fault_parts_names) from.spread_of_figure.erase(std::string(name));
  from.notes.push_back(
      "the parts of a fault (batch, fault, granules, service, evict) could not be told apart");
}

std::size_t largest_sample_count(const readings& all) {
  std::size_t most = 0;
  for (const auto& [name, values] : all) most = std::max(most, values.size());
  return most;
}

// Leaves out sample positions at which a reading that the figure needs is missing.
spread spread_over_samples(const figure& f, const readings& all, const uvm_costs& given) {
  std::vector<double> values{f.value(readings_view(all, given, {}))};
  const std::size_t most = largest_sample_count(all);
  for (std::size_t i = 0; i < most; ++i) {
    try {
      values.push_back(f.value(readings_view(all, given, sample_position{i, most})));
    } catch (const std::out_of_range&) {
      continue;
    }
  }
  return spread_of(std::move(values));
}

}  // namespace

spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.size(),
          values.front(),
          quantile_of(values, 0.5),
          values.back(),
          quantile_of(values, 0.25),
          quantile_of(values, 0.75)};
}

figures figures_from(const readings& all, const uvm_costs& given) {
  figures made;
  bool whole = true;
  std::vector<figure> table(machine_figures.begin(), machine_figures.end());
  table.insert(table.end(), uvm_figures.begin(), uvm_figures.end());
  for (const figure& f : table) {
    try {
      spread s = spread_over_samples(f, all, given);
      s.typical = f.value(readings_view(all, given, {}));
      if (s.typical < f.min_value) {
        made.notes.push_back(std::string(f.name) + " came out as " + std::to_string(s.typical));
        if (f.min_value > 0) continue;
        s.typical = 0;
      }
      made.spread_of_figure[f.name] = s;
    } catch (const std::out_of_range& missing) {
      made.notes.push_back(std::string(f.name) + " needs " + missing.what());
      whole = whole && !is_part_of_fault_time(f.name);
    }
  }
  if (!whole) drop_parts_of_fault(made);
  if (made.spread_of_figure.count(std::string(inferred_figure)) > 0)
    made.inferred.insert(std::string(inferred_figure));
  return made;
}

}  // namespace um::measure
