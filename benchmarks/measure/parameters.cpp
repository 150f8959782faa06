#include "benchmarks/measure/parameters.hpp"

#include <cuda_runtime_api.h>

#include "backends/cuda/cupti_counters.hpp"
#include "benchmarks/measure/calibration_sizes.hpp"
#include "benchmarks/measure/families.hpp"

namespace um::measure {
namespace {

struct source {
  const char* name;
  measurement what;
  int repetitions = 5;
  const char* counter = nullptr;  // in place of the total
};

std::vector<source> link_sources() {
  return {{"link_to_device", pinned_copy(mover::copy_engine, way::to_device, link_bytes), 9},
          {"link_to_host", pinned_copy(mover::copy_engine, way::to_host, link_bytes), 9},
          {"link_both", pinned_copy(mover::copy_engine, way::both, 2 * link_bytes), 9},
          {"small_copies", small_copies(copies), 9},
          {"launches", empty_launches(launches), 9},
          {"device_copy", device_copy(GiB), 9},
          {"product_fp32", square_product(precision::fp32, product_side), 9},
          {"product_tf32", square_product(precision::tf32, product_side), 60},
          {"product_bf16", square_product(precision::bf16, product_side), 120}};
}

measurement streaming(state data, access how = access::read) {
  return gpu_touches({.data = data, .how = how, .bytes = stream_bytes});
}
measurement places(byte_count stride, byte_count bytes) {
  return gpu_touches({.data = state::unmapped, .in = pattern::strided, .bytes = bytes, .stride = stride});
}

std::vector<source> fault_sources() {
  return {{"stream_nowhere", streaming(state::nowhere, access::write), 31},
          {"stream_cold", streaming(state::cold), 9},
          {"stream_mapped", streaming(state::warm), 21},
          {"stream_unmapped", streaming(state::unmapped), 15},
          {"isolated_fault", isolated_fault(state::unmapped), 15, "fault_ns"},
          {"few_granules", places(granule, few_granules * granule), 41},
          {"many_granules", places(granule, many_granules * granule), 41},
          {"granules_of_few_blocks", places(managed_block, few_blocks * managed_block), 41},
          {"granules_of_many_blocks", places(managed_block, many_blocks * managed_block), 41},
          {"cpu_touches", cpu_touches(touched_bytes, managed_block, {}), 15},
          {"refill", discarding(refill::write, refilled_bytes), 5}};
}

std::vector<source> prefetch_sources() {
  const auto whole = [](way direction, byte_count bytes) {
    return prefetch_of({.direction = direction, .bytes = bytes, .call_bytes = bytes});
  };
  const std::vector<advice> remote{advice::preferred_host, advice::accessed_by_device};
  return {{"prefetch_in_2MiB", whole(way::to_device, 2 * MiB), 41},
          {"prefetch_in_32MiB", whole(way::to_device, 32 * MiB), 21},
          {"prefetch_in_1GiB", whole(way::to_device, GiB), 9},
          {"prefetch_there_1GiB", prefetch_of({.direction = way::to_device, .bytes = GiB, .there = true}), 9},
          {"prefetch_out_2MiB", whole(way::to_host, 2 * MiB), 41},
          {"prefetch_out_256MiB", whole(way::to_host, stream_bytes), 15},
          {"prefetch_out_1GiB", whole(way::to_host, GiB), 9},
          {"prefetch_out_new", prefetch_of({.direction = way::to_host,
                                            .bytes = stream_bytes,
                                            .call_bytes = stream_bytes,
                                            .populated = false})},
          {"discard_1GiB", discarding(refill::discard, GiB), 9},
          {"remote_read", advised(remote, advised_step::read, stream_bytes)},
          {"remote_write", advised(remote, advised_step::write, stream_bytes)}};
}

std::string because(const std::string& name, const std::exception& reason) {
  return name + " was not measured: " + reason.what();
}

void read_times(bench& on, const source& from, readings& all, std::vector<std::string>& notes) {
  try {
    for (const repetition& r : take(on, from.what, from.repetitions).later) {
      all[from.name].push_back(from.counter != nullptr ? r.more.at(from.counter)
                                                       : static_cast<double>(r.total));
    }
  } catch (const unsupported& reason) {
    notes.push_back(because(from.name, reason));
  } catch (const out_of_memory& reason) {
    notes.push_back(because(from.name, reason));
  }
}

// Counted after everything has been timed.
void read_counts(bench& on, readings& all) {
  unified_memory_counter counter;
  const auto counts_of = [&](const measurement& what) {
    const trial t = what.prepare(on);
    t.put_back();
    counter.start();
    t.run();
    const unified_memory_counts counts = counter.stop();
    if (counts.dropped > 0) throw unsupported("CUPTI dropped " + std::to_string(counts.dropped) + " records");
    if (counts.batches.empty()) throw unsupported("CUPTI saw no faults");
    return counts;
  };
  // CUPTI has one record for a batch of faults, at least that of CUDA 13.0.
  all["batches_mapped"] = {static_cast<double>(counts_of(streaming(state::warm)).batches.size())};
  all["batches_nowhere"] = {
      static_cast<double>(counts_of(streaming(state::nowhere, access::write)).batches.size())};
}

void read_device(bench& on, readings& all) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  all["free_device_bytes"] = {static_cast<double>(free)};
  all["multiprocessors"] = {static_cast<double>(on.facts().multiprocessors)};
}

}  // namespace

calibration calibrate(bench& on, const std::function<void(std::string_view)>& progress) {
  readings all;
  std::vector<std::string> notes;
  read_device(on, all);
  for (const auto& sources : {link_sources(), fault_sources(), prefetch_sources()}) {
    for (const source& from : sources) {
      progress(from.what.name);
      read_times(on, from, all, notes);
    }
    on.let_go();
  }
  try {
    progress("counting faults");
    read_counts(on, all);
  } catch (const unsupported& reason) {
    notes.push_back(because("batches_mapped", reason));
  }
  calibration made{figures_from(all), {}};
  made.found.notes.insert(made.found.notes.begin(), notes.begin(), notes.end());
  for (const auto& [name, values] : all) made.samples[name] = spread_of(values);
  return made;
}

}  // namespace um::measure
