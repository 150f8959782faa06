// Microbenchmarks as values. A case describes a measurement and prepares a trial. A trial restores the
// residence of the data and does the work once. A family is a function from the device's facts to cases;
// families() is their table.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "measure/access.hpp"
#include "measure/bench.hpp"
#include "measure/figures.hpp"

namespace um::measure {

// Times of one repetition: in total, and until the last call returned.
struct repetition {
  nanoseconds total_time = 0, issue_time = 0;
  std::map<std::string, double> counters;  // counters of the case, units in their names
};

struct trial {
  std::function<void()> reset;  // restores where the data resides; returns when that is done
  std::function<repetition()> run;
};

enum class copy_direction : std::uint8_t { none, to_device, to_host, both };

struct benchmark_case {
  std::string name;      // family/what/axis:value
  byte_count bytes = 0;  // bytes that the work transfers; 0: none
  copy_direction link_direction =
      copy_direction::none;              // pinned copies in this direction are the reference rate
  std::string reset_text;                // describes what is done before every repetition
  bool migrates = false;                 // managed memory moves, so the case runs again with counting
  byte_count expected_in_bytes = 0;      // bytes that the driver must move to the device; 0: unknown
  byte_count expected_out_bytes = 0;     // bytes that it must move to the host. A lower count is incomplete
  int repetitions = 4;                   // repetitions after the first, fewer if they take long
  std::function<trial(bench&)> prepare;  // throws unsupported or out_of_memory with the reason
};

struct samples {
  repetition first;
  std::vector<repetition> later;  // repetitions after the first
};

// A first repetition, then `repetitions` more.
samples take_samples(bench& on, const benchmark_case& what, int repetitions);
// Takes a first repetition, then as many as the case requests, more if they are short, and fewer if they are
// long.
samples take_samples_until_deadline(bench& on, const benchmark_case& what);

nanoseconds median_total(const std::vector<repetition>& all);
nanoseconds median_issue(const std::vector<repetition>& all);

// Times by the host's clock, from the first call until the GPU is idle.
repetition time_by_host(const std::function<void()>& issue);
// Times by events around the work on a stream.
repetition time_by_events(cudaStream_t stream, const std::function<void()>& issue);

// Returns a text for names of cases, such as "64KiB".
std::string bytes_text(byte_count bytes);

}  // namespace um::measure
