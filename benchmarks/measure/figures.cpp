#include "benchmarks/measure/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "benchmarks/measure/calibration_sizes.hpp"

namespace um::measure {
namespace {

constexpr double of(byte_count n) {
  return static_cast<double>(n);
}
constexpr double blocks_in(byte_count bytes) {
  return of(bytes / managed_block);
}

// A sample of every reading, or the median. A reading that is not there is noted.
class view {
 public:
  view(const readings& all, std::optional<std::size_t> sample) : all_(all), sample_(sample) {}

  double operator()(std::string_view name) const {
    const auto found = all_.find(name);
    if (found == all_.end() || found->second.empty()) throw std::out_of_range(std::string(name));
    const std::vector<double>& values = found->second;
    return sample_ ? values[*sample_ % values.size()] : median_of(values);
  }

 private:
  const readings& all_;
  std::optional<std::size_t> sample_;
};

double rate(byte_count bytes, double ns) {
  return of(bytes) * 1e9 / ns;
}
double link_in(const view& v) {
  return rate(link_bytes, v("link_to_device"));
}
double link_out(const view& v) {
  return rate(link_bytes, v("link_to_host"));
}
double at_rate(byte_count bytes, double bytes_per_s) {
  return of(bytes) * 1e9 / bytes_per_s;
}

double fault(const view& v) {
  return (v("many_granules") - v("few_granules")) / (many_granules - few_granules) -
         at_rate(granule, link_in(v));
}
double service(const view& v) {
  return (v("granules_of_many_blocks") - v("granules_of_few_blocks")) / (many_blocks - few_blocks) - fault(v);
}
double batches_of_block(const view& v) {
  return std::max(1.0, v("batches_mapped") / blocks_in(stream_bytes));
}
// Granules asked for at a time, the middle of those that fill a block in so many batches:
// core/machine.hpp has the table.
double granules_of_batch(const view& v) {
  constexpr std::array<double, 6> by_batches{24, 12, 6, 3, 2, 1};
  const auto batches = static_cast<std::size_t>(std::lround(batches_of_block(v)));
  return by_batches[std::min(batches, by_batches.size()) - 1];
}
double batch(const view& v) {
  return v("stream_nowhere") / v("batches_nowhere") - service(v) - granules_of_batch(v) * fault(v);
}
double migrate_copy(const view& v) {
  return v("prefetch_in_1GiB") / blocks_in(GiB) - at_rate(managed_block, link_in(v));
}
double interrupt(const view& v) {
  return v("isolated_fault") - batch(v) - service(v) - fault(v) - migrate_copy(v) -
         at_rate(granule, link_in(v));
}
double first_visit(const view& v) {
  return (v("stream_cold") - v("stream_mapped")) / blocks_in(stream_bytes);
}
double host_unmap(const view& v) {
  return (v("stream_mapped") - v("stream_unmapped")) / blocks_in(stream_bytes) / batches_of_block(v);
}
double prefetch_block(const view& v) {
  return v("prefetch_there_1GiB") / (2 * blocks_in(GiB));
}
double host_map_page(const view& v) {
  return (v("prefetch_out_1GiB") / blocks_in(GiB) - 2 * prefetch_block(v)) / of(managed_block / page);
}
double mapped_block(const view& v) {
  return of(managed_block / page) * host_map_page(v);
}
double to_host_call(const view& v) {
  return v("prefetch_out_2MiB") - at_rate(managed_block, link_out(v)) - mapped_block(v);
}
double evict(const view& v) {
  return std::max(0.0, to_host_call(v)) + service(v);
}
double host_populate(const view& v) {
  return (v("prefetch_out_new") - v("prefetch_out_256MiB")) / blocks_in(stream_bytes);
}
double host_fault(const view& v) {
  return v("cpu_touches") / blocks_in(touched_bytes) - at_rate(granule, link_out(v)) - migrate_copy(v) -
         of(granule / page) * host_map_page(v);
}
double moved_block(const view& v) {
  return migrate_copy(v) + at_rate(managed_block, link_in(v));
}
double prefetch_call(const view& v) {
  return v("prefetch_in_2MiB") - moved_block(v);
}
double prefetch_walk(const view& v) {
  return v("prefetch_in_32MiB") - prefetch_call(v) - blocks_in(32 * MiB) * moved_block(v);
}
double discard_block(const view& v) {
  return v("discard_1GiB") / blocks_in(GiB);
}
double flops(double ns) {
  constexpr double side = static_cast<double>(product_side);
  return 2 * side * side * side * 1e9 / ns;
}

struct figure {
  const char* name;
  double (*value)(const view&);
  double least = 0;  // rates cannot be 0
};

constexpr std::array<figure, 31> table{{
    {"device_bytes", [](const view& v) { return v("free_device_bytes"); }, 1},
    {"multiprocessors", [](const view& v) { return v("multiprocessors"); }, 1},
    {"fp32_flops_per_s", [](const view& v) { return flops(v("product_fp32")); }, 1},
    {"tf32_flops_per_s", [](const view& v) { return flops(v("product_tf32")); }, 1},
    {"bf16_flops_per_s", [](const view& v) { return flops(v("product_bf16")); }, 1},
    {"device_bytes_per_s", [](const view& v) { return rate(2 * GiB, v("device_copy")); }, 1},
    {"link_to_device_bytes_per_s", &link_in, 1},
    {"link_to_host_bytes_per_s", &link_out, 1},
    {"link_both_bytes_per_s", [](const view& v) { return rate(2 * link_bytes, v("link_both")); }, 1},
    {"launch_ns", [](const view& v) { return v("launches") / launches; }},
    {"copy_ns", [](const view& v) { return v("small_copies") / copies - at_rate(small_copy, link_in(v)); }},
    {"uvm.interrupt_ns", &interrupt},
    {"uvm.batch_ns", &batch},
    {"uvm.fault_ns", &fault},
    {"uvm.batch_granules", &granules_of_batch, 1},
    {"uvm.service_ns", &service},
    {"uvm.first_visit_ns", &first_visit},
    {"uvm.host_unmap_ns", &host_unmap},
    {"uvm.page_fault_ns", [](const view& v) { return v("refill") / of(refilled_bytes / page); }},
    {"uvm.migrate_copy_ns", &migrate_copy},
    {"uvm.evict_ns", &evict},
    {"uvm.host_populate_ns", &host_populate},
    {"uvm.host_map_page_ns", &host_map_page},
    {"uvm.host_fault_ns", &host_fault},
    {"uvm.prefetch_call_ns", &prefetch_call},
    {"uvm.prefetch_to_host_call_ns", &to_host_call},
    {"uvm.prefetch_walk_ns", &prefetch_walk},
    {"uvm.prefetch_block_ns", &prefetch_block},
    {"uvm.discard_block_ns", &discard_block},
    {"uvm.remote_read_bytes_per_s", [](const view& v) { return rate(stream_bytes, v("remote_read")); }, 1},
    {"uvm.remote_write_bytes_per_s", [](const view& v) { return rate(stream_bytes, v("remote_write")); }, 1},
}};

// Costs that are only known by their sum unless all of them come out: with one wrong, all are.
constexpr std::array<std::string_view, 6> parts_of_fault{"uvm.interrupt_ns", "uvm.batch_ns",
                                                         "uvm.fault_ns",     "uvm.batch_granules",
                                                         "uvm.service_ns",   "uvm.evict_ns"};
bool is_part_of_fault(std::string_view name) {
  return std::find(parts_of_fault.begin(), parts_of_fault.end(), name) != parts_of_fault.end();
}
void leave_out_parts_of_fault(figures& from) {
  for (const std::string_view name : parts_of_fault) from.by_name.erase(std::string(name));
  from.notes.push_back(
      "the parts of a fault (interrupt, batch, fault, granules, service, evict) could not be told apart");
}

std::size_t most_samples(const readings& all) {
  std::size_t most = 0;
  for (const auto& [name, values] : all) most = std::max(most, values.size());
  return most;
}

}  // namespace

double median_of(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  if (all.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(all.begin(), middle)) / 2;
}

spread spread_of(std::vector<double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {values.size(), *least, median_of(values), *most};
}

figures figures_from(const readings& all) {
  figures made;
  bool separate = true;
  for (const figure& f : table) {
    try {
      std::vector<double> values;
      for (std::size_t i = 0; i < most_samples(all); ++i) values.push_back(f.value(view(all, i)));
      spread s = spread_of(std::move(values));
      s.median = f.value(view(all, {}));
      if (s.median < f.least) {
        made.notes.push_back(std::string(f.name) + " came out as " + std::to_string(s.median));
        separate = separate && !is_part_of_fault(f.name);
        if (f.least > 0) continue;
        s.median = 0;
      }
      made.by_name[f.name] = s;
    } catch (const std::out_of_range& missing) {
      made.notes.push_back(std::string(f.name) + " needs " + missing.what());
      separate = separate && !is_part_of_fault(f.name);
    }
  }
  if (!separate) leave_out_parts_of_fault(made);
  return made;
}

}  // namespace um::measure
