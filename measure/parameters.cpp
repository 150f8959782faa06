#include "measure/parameters.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "backends/cuda/cupti_counters.hpp"
#include "measure/calibration_sizes.hpp"
#include "measure/families.hpp"

namespace um::measure {
namespace {

using clock = std::chrono::steady_clock;

// One reading is a repetition's time or one of its counters.
struct reading {
  const char* name;
  const char* counter = nullptr;
};
struct reading_source {
  std::vector<reading> readings;
  benchmark_case what;
  int rounds_between = 1;  // rounds from one repetition to the next; more for slow or stable measurements
};

// Repetitions of a product follow one another, so that the GPU runs at its sustained clock.
struct product_source {
  const char* name;
  precision arithmetic;
  int repetitions;
};
constexpr std::array<product_source, 3> product_sources{{{"product_fp32", precision::fp32, 15},
                                                         {"product_tf32", precision::tf32, 120},
                                                         {"product_bf16", precision::bf16, 240}}};

// The largest come first, since they share their memory.
std::vector<reading_source> link_sources() {
  return {
      {{{"device_copy"}}, device_copy(GiB)},
      {{{"link_both"}}, pinned_copy(copy_method::copy_engine, copy_direction::both, 2 * link_bytes), 3},
      {{{"link_to_device"}}, pinned_copy(copy_method::copy_engine, copy_direction::to_device, link_bytes), 3},
      {{{"link_to_host"}}, pinned_copy(copy_method::copy_engine, copy_direction::to_host, link_bytes), 3},
      {{{"small_copies"}}, small_copies(copies)},
      {{{"launches"}}, empty_launches(launches)}};
}

// Accesses one place per stride; new memory is written, since reads need not populate it.
benchmark_case strided_touches(data_state data, byte_count stride) {
  return gpu_touches({.data = data,
                      .access_kind = data == data_state::nowhere ? access::write : access::read,
                      .order = access_pattern::strided,
                      .bytes = sparse_bytes,
                      .stride = stride});
}
benchmark_case one_prefetch(copy_direction direction, byte_count bytes, bool populated = true) {
  return prefetch_case(
      {.direction = direction, .bytes = bytes, .call_bytes = bytes, .is_populated = populated});
}
benchmark_case streaming_first_touch(access kind) {
  return gpu_touches({.data = data_state::nowhere, .access_kind = kind, .bytes = stream_bytes});
}

std::vector<reading_source> fault_sources() {
  constexpr byte_count sparse = 2 * granule;
  return {
      {{{"first_touch_write"}}, streaming_first_touch(access::write)},
      {{{"isolated_nowhere", "first_ns"}, {"isolated_again", "again_ns"}},
       repeated_isolated_faults(block_chase_trial)},
      {{{"few_blocks", "first_ns"}, {"few_again", "again_ns"}}, touches_again_in_blocks(few_blocks)},
      {{{"many_blocks", "first_ns"}, {"many_again", "again_ns"}}, touches_again_in_blocks(many_blocks)},
      {{{"granules_nowhere"}}, strided_touches(data_state::nowhere, granule)},
      {{{"granules_unmapped"}}, strided_touches(data_state::unmapped, granule)},
      {{{"sparse_nowhere"}}, strided_touches(data_state::nowhere, sparse)},
      {{{"sparse_unmapped"}}, strided_touches(data_state::unmapped, sparse)},
      {{{"sparse_mapped"}}, strided_touches(data_state::warm, sparse)},
      {{{"isolated_cold", "cold_ns"}, {"isolated_mapped", "seen_ns"}, {"cold_beyond_mapped", "beyond_ns"}},
       faults_on_new_and_seen_blocks(visited_blocks)},
      {{{"isolated_idle", "idle_fault_ns"}}, isolated_faults_after_pause(isolated_fault_blocks)},
      {{{"cpu_touches"}}, cpu_touch_case(touched_bytes, managed_block, {})},
      {{{"refill"}}, discard_case(discard_step::write, refilled_bytes)}};
}

std::vector<reading_source> call_sources() {
  const std::vector<advice> remote{advice::preferred_host, advice::accessed_by_device};
  return {
      {{{"prefetch_in_64KiB", "in_ns"}, {"prefetch_out_64KiB", "out_ns"}},
       small_prefetches(small_prefetch_count)},
      {{{"prefetch_in_1GiB", "in_ns"}, {"prefetch_there_1GiB", "there_ns"}, {"prefetch_out_1GiB", "out_ns"}},
       round_trip(GiB)},
      {{{"prefetch_in_calls"}},
       prefetch_case({.direction = copy_direction::to_device,
                      .bytes = stream_bytes,
                      .call_bytes = queued_prefetch_bytes})},
      {{{"prefetch_in_new"}}, one_prefetch(copy_direction::to_device, stream_bytes, false)},
      {{{"discard_1GiB", "discard_ns"}, {"prefetch_in_discarded", "back_ns"}},
       discard_and_prefetch_back(GiB)},
      {{{"prefetch_out_new", "new_ns"},
        {"prefetch_out_again", "again_ns"},
        {"out_new_beyond_again", "beyond_ns"}},
       host_population(populated_bytes)},
      {{{"prefetch_out_cleared"}}, prefetch_discarded_to_host(populated_bytes, false), 2},
      {{{"out_alone", "alone_ns"}, {"both_in", "to_device_ns"}, {"both_out", "to_host_ns"}},
       prefetch_out_beside_in(concurrent_in_bytes, concurrent_out_bytes),
       2},
      {{{"evict_alone", "alone_ns"},
        {"read_alone", "faults_alone_ns"},
        {"evict_beside_read", "out_ns"},
        {"read_beside_evict", "faults_ns"}},
       prefetch_out_beside_faults(concurrent_fault_bytes),
       2},
      {{{"remote_read"}}, advice_case(remote, advised_step::read, stream_bytes), 4},
      {{{"remote_write"}}, advice_case(remote, advised_step::write, stream_bytes), 4},
      {{{"remote_read_again"}},
       advice_case({advice::accessed_by_device}, advised_step::read_again, stream_bytes),
       8}};
}

class readings_recorder {
 public:
  readings_recorder(bench& on, readings& all, std::vector<std::string>& notes)
      : bench_(on), all_(all), notes_(notes) {}

  void take_consecutively(const reading_source& from, int repetitions) {
    run_and_note_failures(from, [&] {
      for (const repetition& r : take_samples(bench_, from.what, repetitions).later) add_readings(from, r);
    });
  }
  // Prepares all trials, each on its own memory, in place of the previous ones. Those that do not fit are
  // postponed.
  void prepare_trials(const std::vector<reading_source>& sources) {
    trials_.clear();
    postponed_.clear();
    for (const reading_source& from : sources) {
      run_and_note_failures(from, [&] {
        try {
          trials_.push_back({from, from.what.prepare(bench_)});
        } catch (const out_of_memory&) {
          postponed_.push_back(from);
        }
      });
    }
  }
  // Takes one repetition of every prepared trial that is due in round `which`.
  void take_round(int which, bool is_recorded) {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      prepared_trial& at = trials_[i];
      if (at.failed || (which + static_cast<int>(i)) % at.from.rounds_between != 0) continue;
      at.failed = true;
      run_and_note_failures(at.from, [&] {
        try {
          if (at.work.reset) at.work.reset();
          const repetition r = at.work.run();
          if (is_recorded) add_readings(at.from, r);
          at.failed = false;
        } catch (const out_of_memory&) {
          postponed_.push_back(at.from);
        }
      });
    }
  }
  void take_postponed(int repetitions) {
    trials_.clear();
    for (const reading_source& from : postponed_) take_consecutively(from, repetitions);
  }

 private:
  struct prepared_trial {
    reading_source from;
    trial work;
    bool failed = false;
  };

  void run_and_note_failures(const reading_source& from, const auto& work) {
    const auto note = [&](const std::exception& reason) {
      for (const reading& r : from.readings) {
        std::string text = std::string(r.name) + " was not measured: " + reason.what();
        if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
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
  void add_readings(const reading_source& from, const repetition& r) {
    for (const reading& what : from.readings) {
      all_[what.name].push_back(what.counter != nullptr ? r.counters.at(what.counter)
                                                        : static_cast<double>(r.total_time));
    }
  }

  bench& bench_;
  readings& all_;
  std::vector<std::string>& notes_;
  std::vector<prepared_trial> trials_;
  std::vector<reading_source> postponed_;
};

// Accesses host memory once, since the first allocation is slow, above all in a virtual machine.
void warm_host_memory(bench& on) {
  constexpr byte_count most = 4 * GiB;
  const memory_limits& limits = on.ledger().limits();
  const byte_count bytes = round_down(std::min({most, limits.device, limits.host}), managed_block);
  if (bytes == 0) return;
  const leased_memory memory = on.managed_memory(bytes);
  fill_by_host(memory.range());
}

// Takes rounds until the time is over, in three passes. Each pass allocates its memory anew, since the place
// of pages affects all rounds of a pass. The first round of a pass does not count.
void take_rounds(readings_recorder& record, clock::time_point until,
                 const std::function<void(std::string_view)>& progress) {
  constexpr int passes = 3, min_rounds = 6, warm_up = 1;
  std::vector<reading_source> sources = link_sources();
  for (const auto& more : {fault_sources(), call_sources()}) {
    sources.insert(sources.end(), more.begin(), more.end());
  }
  int round = 0;
  for (int pass = 1; pass <= passes; ++pass) {
    progress("preparing memory, pass " + std::to_string(pass) + " of " + std::to_string(passes));
    record.prepare_trials(sources);
    const auto end = clock::now() + (until - clock::now()) / (passes - pass + 1);
    const int first = round;
    while (round < first + min_rounds + warm_up || clock::now() < end) {
      progress("round " + std::to_string(++round));
      record.take_round(round, round > first + warm_up);
    }
  }
  record.take_postponed(min_rounds * passes);
}

// Counts batches of faults of first touches, after everything has been timed. First touches move nothing, so
// there is one record for each batch.
void count_fault_batches(bench& on, readings& all) {
  constexpr int counts_taken = 5;
  unified_memory_counter counter;
  for (const access kind : {access::read, access::write}) {
    const trial t = streaming_first_touch(kind).prepare(on);
    std::vector<double> taken;
    for (int i = 0; i < counts_taken; ++i) {
      t.reset();
      counter.start();
      t.run();
      const unified_memory_counts counts = counter.stop();
      if (!is_complete(counts) || counts.faults_by_batch.empty()) continue;
      taken.push_back(static_cast<double>(counts.faults_by_batch.size()));
    }
    if (taken.empty()) throw unsupported("counting lost records or saw no faults");
    all[kind == access::read ? "batches_read" : "batches_write"] = std::move(taken);
  }
}

void read_device_properties(bench& on, readings& all) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  all["free_device_bytes"] = {static_cast<double>(free)};
  all["multiprocessors"] = {static_cast<double>(on.facts().multiprocessors)};
}

}  // namespace

calibration calibrate(bench& on, const uvm_costs& fitted,
                      const std::function<void(std::string_view)>& progress) {
  constexpr std::chrono::seconds rounds_end(44);
  const auto begin = clock::now();
  readings all;
  std::vector<std::string> notes;
  read_device_properties(on, all);
  readings_recorder record(on, all, notes);
  for (const product_source& from : product_sources) {
    const reading_source one{{{from.name}}, square_product(from.arithmetic, product_side)};
    progress(one.what.name);
    record.take_consecutively(one, from.repetitions);
  }
  on.release_shared_memory();
  progress("touching host memory");
  warm_host_memory(on);
  take_rounds(record, begin + rounds_end, progress);
  try {
    progress("counting faults");
    count_fault_batches(on, all);
  } catch (const unsupported& reason) {
    notes.push_back(std::string("batches were not counted: ") + reason.what());
  }
  calibration made{figures_from(all, fitted), {}, {}};
  made.results.notes.insert(made.results.notes.begin(), notes.begin(), notes.end());
  for (const auto& [name, values] : all) made.samples[name] = spread_of(values);
  made.raw_readings = std::move(all);
  return made;
}

}  // namespace um::measure
