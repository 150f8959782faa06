#include "measure/cases.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>

namespace um::measure {
namespace {

using clock = std::chrono::steady_clock;

nanoseconds time_since(clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begin).count();
}

nanoseconds median(const std::vector<repetition>& all, nanoseconds repetition::* what) {
  std::vector<double> values;
  for (const repetition& r : all) values.push_back(static_cast<double>(r.*what));
  return static_cast<nanoseconds>(median_of(std::move(values)));
}

repetition run_once(const trial& t) {
  if (t.reset) t.reset();
  return t.run();
}

}  // namespace

samples take_samples(bench& on, const benchmark_case& what, int repetitions) {
  const trial t = what.prepare(on);
  samples all{run_once(t), {}};
  for (int i = 0; i < repetitions; ++i) all.later.push_back(run_once(t));
  return all;
}

samples take_samples_until_deadline(bench& on, const benchmark_case& what) {
  constexpr nanoseconds at_least = 80'000'000, at_most = 800'000'000;
  constexpr std::size_t most = 12;
  const trial t = what.prepare(on);
  samples all{run_once(t), {}};
  const auto begin = clock::now();
  const auto asked = static_cast<std::size_t>(what.repetitions);
  const auto enough = [&] {
    const std::size_t have = all.later.size();
    const nanoseconds took = time_since(begin);
    return have >= most || (have >= asked && took > at_least) || (have > 0 && took > at_most);
  };
  while (!enough()) all.later.push_back(run_once(t));
  return all;
}

nanoseconds median_total(const std::vector<repetition>& all) {
  return median(all, &repetition::total_time);
}
nanoseconds median_issue(const std::vector<repetition>& all) {
  return median(all, &repetition::issue_time);
}

repetition time_by_host(const std::function<void()>& issue) {
  const auto begin = clock::now();
  issue();
  const nanoseconds issued = time_since(begin);
  check(cudaDeviceSynchronize());
  return {time_since(begin), issued, {}};
}

repetition time_by_events(cudaStream_t stream, const std::function<void()>& issue) {
  const cuda_event first = make_event(event_use::timing), last = make_event(event_use::timing);
  const auto begin = clock::now();
  check(cudaEventRecord(first.get(), stream));
  issue();
  check(cudaEventRecord(last.get(), stream));
  const nanoseconds issued = time_since(begin);
  check(cudaEventSynchronize(last.get()));
  float ms = 0;
  check(cudaEventElapsedTime(&ms, first.get(), last.get()));
  return {static_cast<nanoseconds>(static_cast<double>(ms) * 1e6), issued, {}};
}

std::string bytes_text(byte_count bytes) {
  constexpr std::array<std::pair<byte_count, const char*>, 3> units{
      {{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}};
  for (const auto& [unit, suffix] : units) {
    if (bytes >= unit && bytes % unit == 0) return std::to_string(bytes / unit) + suffix;
  }
  return std::to_string(bytes) + "B";
}

}  // namespace um::measure
