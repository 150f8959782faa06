// Measures Unified Memory on this GPU: every family of measure/ as Google Benchmark cases.
//   um_microbenchmarks --benchmark_filter=^prefetch/ --benchmark_out=here.json [--device=1]
// Cases measure their own times (manual time). Residency is restored outside of these times, as the label
// says. A case that cannot run is skipped with its reason. Cases in which the driver moves data run again as
// NAME/counted, after everything has been timed, because counting takes time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cupti_counters.hpp"
#include "measure/cases.hpp"
#include "measure/families.hpp"

namespace um::measure {
namespace {

// Rates of large pinned copies, to which the counter link_share refers.
struct link_rates {
  double to_device = 0, to_host = 0, both = 0;
};

double bytes_per_second(byte_count bytes, nanoseconds time) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<nanoseconds>(time, 1));
}

link_rates measure_link(bench& on) {
  constexpr byte_count bytes = 256 * MiB;
  const auto rate = [&](copy_direction direction) {
    return bytes_per_second(
        bytes,
        median_total(take_samples(on, pinned_copy(copy_method::copy_engine, direction, bytes), 5).later));
  };
  return {rate(copy_direction::to_device), rate(copy_direction::to_host), rate(copy_direction::both)};
}

double rate_of(const link_rates& link, copy_direction direction) {
  switch (direction) {
    case copy_direction::to_device:
      return link.to_device;
    case copy_direction::to_host:
      return link.to_host;
    case copy_direction::both:
      return link.both;
    case copy_direction::none:
      break;
  }
  return 0;
}

struct runner {
  explicit runner(int device) : on(device), link(measure_link(on)) {}

  // Frees the memory of one family before the next.
  void enter_family(std::string_view name) {
    if (name != family) on.release_shared_memory();
    family = name;
  }

  bench on;
  link_rates link;
  std::string_view family;
  std::map<std::string, nanoseconds> medians;  // median time of each case
  std::unique_ptr<unified_memory_counter> counter;
};

// Runs `work`. If it throws, the case is skipped with the error as its reason.
void skip_on_error(benchmark::State& state, const auto& work) {
  try {
    work();
  } catch (const unsupported& reason) {
    state.SkipWithError((std::string("skipped: ") + reason.what()).c_str());
  } catch (const out_of_memory& reason) {
    state.SkipWithError((std::string("skipped: ") + reason.what()).c_str());
  } catch (const std::exception& failure) {
    state.SkipWithError((std::string("failed: ") + failure.what()).c_str());
  }
}

void add_times(benchmark::State& state, const benchmark_case& what, const samples& all,
               const link_rates& link) {
  const auto by_time = [](const repetition& a, const repetition& b) { return a.total_time < b.total_time; };
  const auto [fastest, slowest] = std::minmax_element(all.later.begin(), all.later.end(), by_time);
  const nanoseconds median = median_total(all.later);
  state.counters["repetitions_taken"] = static_cast<double>(all.later.size());
  state.counters["first_ns"] = static_cast<double>(all.first.total_time);
  state.counters["median_ns"] = static_cast<double>(median);
  state.counters["least_ns"] = static_cast<double>(fastest->total_time);
  state.counters["most_ns"] = static_cast<double>(slowest->total_time);
  state.counters["issue_ns"] = static_cast<double>(median_issue(all.later));
  if (what.bytes == 0) return;
  const double rate = bytes_per_second(what.bytes, median);
  state.counters["bytes"] = static_cast<double>(what.bytes);
  state.counters["GB_per_s"] = rate / 1e9;
  if (const double link_rate = rate_of(link, what.link_direction); link_rate > 0) {
    state.counters["link_share"] = rate / link_rate;
  }
}

// Medians of the case's own counters.
void add_case_counters(benchmark::State& state, const samples& all) {
  for (const auto& [name, value] : all.first.counters) {
    std::vector<double> values;
    for (const repetition& r : all.later) values.push_back(r.counters.at(name));
    state.counters[name] = median_of(std::move(values));
  }
}

// Takes the samples, then reports their times to Google Benchmark.
void run_case(benchmark::State& state, runner& with, std::string_view family, const benchmark_case& what) {
  samples all;
  with.enter_family(family);
  skip_on_error(state, [&] { all = take_samples_until_deadline(with.on, what); });
  // Google Benchmark expects as many times as iterations were registered, so the measured ones repeat.
  std::size_t next = 0;
  for ([[maybe_unused]] const auto tick : state) {
    state.SetIterationTime(static_cast<double>(all.later[next++ % all.later.size()].total_time) / 1e9);
  }
  if (all.later.empty()) return;
  with.medians[what.name] = median_total(all.later);
  add_times(state, what, all, with.link);
  add_case_counters(state, all);
  state.SetLabel(what.reset_text);
}

void add_counts(benchmark::State& state, const unified_memory_counts& counts) {
  constexpr std::array<const char*, 6> causes{"unknown", "user",     "demand",
                                              "tree",    "eviction", "access_counter"};
  const auto add = [&](const std::string& name, const migrated_bytes& moved) {
    state.counters[name + "_bytes"] = static_cast<double>(moved.total);
    for (std::size_t i = 0; i < causes.size(); ++i) {
      if (moved.by_cause[i] > 0) {
        state.counters[name + '_' + causes[i] + "_bytes"] = static_cast<double>(moved.by_cause[i]);
      }
    }
  };
  add("to_device", counts.to_device);
  add("to_host", counts.to_host);
  state.counters["gpu_faults"] = static_cast<double>(counts.gpu_faults);
  state.counters["gpu_fault_groups"] = static_cast<double>(counts.gpu_fault_groups);
  state.counters["fault_batches"] = static_cast<double>(counts.faults_by_batch.size());
  state.counters["cpu_faults"] = static_cast<double>(counts.cpu_faults);
  state.counters["throttled"] = static_cast<double>(counts.throttling);
}

// Bytes that the driver moved, over the time of the case without counting.
void add_rates(benchmark::State& state, const unified_memory_counts& counts, nanoseconds time,
               const link_rates& link) {
  const auto add = [&](const std::string& name, byte_count bytes, double link_rate) {
    if (bytes == 0) return;
    const double rate = bytes_per_second(bytes, time);
    state.counters[name + "_GB_per_s"] = rate / 1e9;
    state.counters[name + "_link_share"] = rate / link_rate;
  };
  add("to_device", counts.to_device.total, link.to_device);
  add("to_host", counts.to_host.total, link.to_host);
}

void require_complete(const unified_memory_counts& counts, const benchmark_case& what) {
  const auto refuse = [](const std::string& why) {
    throw unsupported("counting lost records, so the counts are not whole: " + why);
  };
  if (counts.dropped_records > 0) refuse("it says that it dropped " + std::to_string(counts.dropped_records));
  if (!is_complete(counts)) refuse("demanded bytes came without a fault");
  const auto compare = [&](const char* where, byte_count seen, byte_count expected) {
    if (seen < expected) {
      refuse("it saw " + std::to_string(seen) + " of " + std::to_string(expected) + " bytes go to the " +
             where);
    }
  };
  compare("device", counts.to_device.total, what.expected_in_bytes);
  compare("host", counts.to_host.total, what.expected_out_bytes);
}

// Counts the Unified Memory traffic of one repetition. Another one runs before it, uncounted.
void run_counted(benchmark::State& state, runner& with, std::string_view family, const benchmark_case& what) {
  with.enter_family(family);
  repetition counted;
  unified_memory_counts counts;
  skip_on_error(state, [&] {
    if (!with.counter) with.counter = std::make_unique<unified_memory_counter>();
    const trial t = what.prepare(with.on);
    const auto reset = [&] {
      if (t.reset) t.reset();
    };
    reset();
    t.run();
    reset();
    with.counter->start();
    counted = t.run();
    counts = with.counter->stop();
    require_complete(counts, what);
  });
  for ([[maybe_unused]] const auto tick : state) {
    state.SetIterationTime(static_cast<double>(counted.total_time) / 1e9);
    add_counts(state, counts);
    if (const auto timed = with.medians.find(what.name); timed != with.medians.end()) {
      add_rates(state, counts, timed->second, with.link);
    }
  }
  state.SetLabel("counted, so not a time to compare; " + what.reset_text);
}

void add_gpu_to_context(const runner& with) {
  const auto text = [](double rate) { return std::to_string(static_cast<std::uint64_t>(rate)); };
  benchmark::AddCustomContext("gpu", with.on.facts().name);
  benchmark::AddCustomContext("link_to_device_bytes_per_s", text(with.link.to_device));
  benchmark::AddCustomContext("link_to_host_bytes_per_s", text(with.link.to_host));
  benchmark::AddCustomContext("link_both_bytes_per_s", text(with.link.both));
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  benchmark::AddCustomContext("cuda_driver", std::to_string(driver));
  benchmark::AddCustomContext("cuda_runtime", std::to_string(runtime));
}

void add_limits_to_context(const memory_limits& limits) {
  benchmark::AddCustomContext("device_limit_bytes", std::to_string(limits.device));
  benchmark::AddCustomContext("host_limit_bytes", std::to_string(limits.host));
}

// Registers a case. Its counter `whole_case_s` includes the work outside of the times, such as allocation and
// restoring residency.
void add_case(const std::string& name, int iterations, std::function<void(benchmark::State&)> run) {
  const auto watched = [run = std::move(run)](benchmark::State& state) {
    const auto begin = std::chrono::steady_clock::now();
    run(state);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.counters["whole_case_s"] = took.count();
  };
  benchmark::RegisterBenchmark(name.c_str(), watched)
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMicrosecond);
}

void add_cases(runner& with) {
  std::vector<std::pair<std::string_view, benchmark_case>> counted;
  for (const family& f : families()) {
    for (const benchmark_case& m : f.cases(with.on.facts())) {
      add_case(m.name, m.repetitions, [&with, f, m](benchmark::State& s) { run_case(s, with, f.name, m); });
      if (m.migrates) counted.emplace_back(f.name, m);
    }
  }
  for (const auto& [of, m] : counted) {
    add_case(m.name + "/counted", 1, [&with, of, m](benchmark::State& s) { run_counted(s, with, of, m); });
  }
}

// Removes "--device=N" from the arguments and returns N.
int parse_device(int& argc, char** argv) {
  constexpr std::string_view option = "--device=";
  int device = 0, kept = 0;
  for (int i = 0; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (!text.starts_with(option)) {
      argv[kept++] = argv[i];
      continue;
    }
    const std::string number(text.substr(option.size()));
    if (number.empty() || number.size() > 3 || number.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument("--device: '" + number + "' is no GPU's number");
    }
    device = std::stoi(number);
  }
  argc = kept;
  return device;
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const int device = parse_device(argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  runner with(device);
  add_gpu_to_context(with);
  add_limits_to_context(with.on.ledger().limits());
  add_cases(with);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace um::measure

int main(int argc, char** argv) {
  try {
    return um::measure::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::cerr << "um_microbenchmarks: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "um_microbenchmarks: " << error.what() << '\n';
    return 1;
  }
}
