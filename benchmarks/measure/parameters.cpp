#include "benchmarks/measure/parameters.hpp"

#include <cuda_runtime_api.h>

#include "backends/cuda/cupti_counters.hpp"
#include "benchmarks/measure/calibration_sizes.hpp"
#include "benchmarks/measure/families.hpp"

namespace um::measure {
namespace {

// One reading is a repetition's time or one of its counters.
struct reading {
  const char* name;
  const char* counter = nullptr;
};
struct source {
  std::vector<reading> yields;
  measurement what;
  int repetitions = 0;  // of those taken one after the other
};

std::vector<source> link_sources() {
  return {{{{"link_to_device"}}, pinned_copy(mover::copy_engine, way::to_device, link_bytes), 9},
          {{{"link_to_host"}}, pinned_copy(mover::copy_engine, way::to_host, link_bytes), 9},
          {{{"link_both"}}, pinned_copy(mover::copy_engine, way::both, 2 * link_bytes), 9},
          {{{"small_copies"}}, small_copies(copies), 15},
          {{{"launches"}}, empty_launches(launches), 15},
          {{{"device_copy"}}, device_copy(GiB), 15},
          {{{"product_fp32"}}, square_product(precision::fp32, product_side), 15},
          {{{"product_tf32"}}, square_product(precision::tf32, product_side), 120},
          {{{"product_bf16"}}, square_product(precision::bf16, product_side), 240}};
}

measurement streaming(state data, access how) {
  return gpu_touches({.data = data, .how = how, .bytes = stream_bytes});
}
// One place in every stride; memory that lies nowhere is written, since a read need not populate it.
measurement places(state data, byte_count stride, byte_count bytes) {
  return gpu_touches({.data = data,
                      .how = data == state::nowhere ? access::write : access::read,
                      .in = pattern::strided,
                      .bytes = bytes,
                      .stride = stride});
}
measurement prefetching_whole(way direction, byte_count bytes, bool populated = true) {
  return prefetch_of({.direction = direction, .bytes = bytes, .call_bytes = bytes, .populated = populated});
}

std::vector<source> fault_sources() {
  constexpr byte_count sparse = 2 * granule;
  return {
      {{{"first_touch_write"}}, streaming(state::nowhere, access::write)},
      {{{"isolated_nowhere", "fault_ns"}}, isolated_fault(state::nowhere)},
      {{{"isolated_unmapped", "fault_ns"}}, isolated_fault(state::unmapped)},
      {{{"isolated_mapped", "fault_ns"}, {"isolated_idle", "idle_fault_ns"}}, isolated_fault(state::warm)},
      {{{"isolated_cold", "fault_ns"}}, isolated_fault(state::cold)},
      {{{"granules_nowhere"}}, places(state::nowhere, granule, sparse_bytes)},
      {{{"granules_unmapped"}}, places(state::unmapped, granule, sparse_bytes)},
      {{{"sparse_nowhere"}}, places(state::nowhere, sparse, sparse_bytes)},
      {{{"sparse_unmapped"}}, places(state::unmapped, sparse, sparse_bytes)},
      {{{"sparse_mapped"}}, places(state::warm, sparse, sparse_bytes)},
      {{{"few_blocks"}}, places(state::nowhere, managed_block, few_blocks * managed_block)},
      {{{"many_blocks"}}, places(state::nowhere, managed_block, many_blocks * managed_block)},
      {{{"cpu_touches"}}, cpu_touches(touched_bytes, managed_block, {})},
      {{{"refill"}}, discarding(refill::write, refilled_bytes)}};
}

std::vector<source> call_sources() {
  const std::vector<advice> remote{advice::preferred_host, advice::accessed_by_device};
  return {
      {{{"prefetch_in_2MiB"}}, prefetching_whole(way::to_device, 2 * MiB)},
      {{{"prefetch_in_1GiB"}}, prefetching_whole(way::to_device, GiB)},
      {{{"prefetch_in_calls"}},
       prefetch_of({.direction = way::to_device, .bytes = stream_bytes, .call_bytes = queued_call})},
      {{{"prefetch_in_new"}}, prefetching_whole(way::to_device, stream_bytes, false)},
      {{{"prefetch_in_discarded"}}, discarding(refill::prefetch, GiB)},
      {{{"prefetch_there_1GiB"}}, prefetch_of({.direction = way::to_device, .bytes = GiB, .there = true})},
      {{{"prefetch_out_2MiB"}}, prefetching_whole(way::to_host, 2 * MiB)},
      {{{"prefetch_out_256MiB"}}, prefetching_whole(way::to_host, stream_bytes)},
      {{{"prefetch_out_1GiB"}}, prefetching_whole(way::to_host, GiB)},
      {{{"prefetch_out_new"}}, prefetching_whole(way::to_host, stream_bytes, false)},
      {{{"prefetch_out_cleared"}}, discarded_to_host(stream_bytes, false)},
      {{{"both_in", "to_device_ns"}, {"both_out", "to_host_ns"}}, prefetch_both_ways(2 * stream_bytes)},
      {{{"discard_1GiB"}}, discarding(refill::discard, GiB)},
      {{{"remote_read"}}, advised(remote, advised_step::read, stream_bytes)},
      {{{"remote_write"}}, advised(remote, advised_step::write, stream_bytes)},
      {{{"remote_read_again"}},
       advised({advice::accessed_by_device}, advised_step::read_again, stream_bytes)}};
}

class recorder {
 public:
  recorder(bench& on, readings& all, std::vector<std::string>& notes) : on_(on), all_(all), notes_(notes) {}

  void take_in_a_row(const source& from) {
    noting(from, [&] {
      for (const repetition& r : take(on_, from.what, from.repetitions).later) keep(from, r);
    });
  }
  // What does not fit beside the others is left for later.
  void prepare(const source& from) {
    noting(from, [&] {
      try {
        trials_.emplace_back(from, from.what.prepare(on_));
      } catch (const out_of_memory&) {
        late_.push_back(from);
      }
    });
  }
  // One repetition of everything prepared.
  void take_round(bool counts) {
    for (const auto& [from, t] : trials_) {
      if (t.put_back) t.put_back();
      const repetition r = t.run();
      if (counts) keep(from, r);
    }
  }
  void take_late(int repetitions) {
    trials_.clear();
    for (source& from : late_) {
      from.repetitions = repetitions;
      take_in_a_row(from);
    }
  }

 private:
  template <class Work>
  void noting(const source& from, const Work& work) {
    const auto note = [&](const std::exception& reason) {
      for (const reading& r : from.yields) {
        notes_.push_back(std::string(r.name) + " was not measured: " + reason.what());
      }
    };
    try {
      work();
    } catch (const unsupported& reason) {
      note(reason);
    } catch (const out_of_memory& reason) {
      note(reason);
    }
  }
  void keep(const source& from, const repetition& r) {
    for (const reading& what : from.yields) {
      all_[what.name].push_back(what.counter != nullptr ? r.more.at(what.counter)
                                                        : static_cast<double>(r.total));
    }
  }

  bench& on_;
  readings& all_;
  std::vector<std::string>& notes_;
  std::vector<std::pair<source, trial>> trials_;
  std::vector<source> late_;
};

// Host memory is slow to come by the first time, in a virtual machine above all; not what is measured.
void warm_host_memory(bench& on) {
  constexpr byte_count most = 4 * GiB;
  const memory_limits& limits = on.ledger().limits();
  const byte_count bytes = round_down(std::min({most, limits.device, limits.host}), managed_block);
  if (bytes == 0) return;
  const grant memory = on.managed_memory(bytes);
  fill_by_host(memory.range());
}

// Batches of faults of first touches, counted after everything has been timed: they move nothing, so
// there is one record for a batch.
void read_counts(bench& on, readings& all) {
  unified_memory_counter counter;
  for (const access how : {access::read, access::write}) {
    const trial t = streaming(state::nowhere, how).prepare(on);
    t.put_back();
    counter.start();
    t.run();
    const unified_memory_counts counts = counter.stop();
    if (!is_whole(counts)) throw unsupported("CUPTI lost records");
    if (counts.batches.empty()) throw unsupported("CUPTI saw no faults");
    all[how == access::read ? "batches_read" : "batches_write"] = {
        static_cast<double>(counts.batches.size())};
  }
}

void read_device(bench& on, readings& all) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  all["free_device_bytes"] = {static_cast<double>(free)};
  all["multiprocessors"] = {static_cast<double>(on.facts().multiprocessors)};
}

}  // namespace

calibration calibrate(bench& on, const std::function<void(std::string_view)>& progress) {
  constexpr int warm_up = 2, rounds = 16;
  readings all;
  std::vector<std::string> notes;
  read_device(on, all);
  recorder record(on, all, notes);
  for (const source& from : link_sources()) {
    progress(from.what.name);
    record.take_in_a_row(from);
  }
  on.let_go();
  progress("preparing managed memory");
  warm_host_memory(on);
  for (const auto& sources : {fault_sources(), call_sources()}) {
    for (const source& from : sources) record.prepare(from);
  }
  for (int i = 0; i < warm_up + rounds; ++i) {
    progress("faults and prefetches, round " + std::to_string(i + 1) + " of " +
             std::to_string(warm_up + rounds));
    record.take_round(i >= warm_up);
  }
  record.take_late(rounds);
  try {
    progress("counting faults");
    read_counts(on, all);
  } catch (const unsupported& reason) {
    notes.push_back(std::string("batches were not counted: ") + reason.what());
  }
  calibration made{figures_from(all), {}};
  made.found.notes.insert(made.found.notes.begin(), notes.begin(), notes.end());
  for (const auto& [name, values] : all) made.samples[name] = spread_of(values);
  return made;
}

}  // namespace um::measure
