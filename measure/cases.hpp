// Microbenchmarks as values: a case says what it measures and prepares a trial; a trial puts
// the data back to where it was and does the work once. A family is a function from the device's facts to
// cases; families() is their table.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/access.hpp"
#include "measure/bench.hpp"
#include "measure/figures.hpp"

namespace um::measure {

// Times of one repetition: in total, and until the last call returned.
struct repetition {
  nanoseconds total = 0, issue = 0;
  std::map<std::string, double> counters;  // counters of the case, units in their names
};

struct trial {
  std::function<void()> reset;  // restores where the data resides; returns when that is done
  std::function<repetition()> run;
};

enum class copy_direction : std::uint8_t { none, to_device, to_host, both };

struct measurement {
  std::string name;                                      // family/what/axis:value
  byte_count bytes = 0;                                  // that the work transfers; 0 if it is no transfer
  copy_direction link_direction = copy_direction::none;  // GB/s are given as a share of this pinned copy rate
  std::string reset;                                     // in words: what is done before every repetition
  bool migrates = false;                 // managed memory moves, so that counting is worth a pass
  byte_count expected_in_bytes = 0;      // that the driver moves to the device, if that is certain
  byte_count expected_out_bytes = 0;     // and to the host; lower counts are incomplete
  int repetitions = 4;                   // after the first, unless they take long
  std::function<trial(bench&)> prepare;  // throws unsupported or out_of_memory with the reason
};

struct samples {
  repetition first;
  std::vector<repetition> later;
};

// A first repetition, then `repetitions` more.
samples take_samples(bench& on, const measurement& what, int repetitions);
// A first repetition, then as many as the case asks for: more of short ones, fewer of long ones.
samples take_samples_for_a_while(bench& on, const measurement& what);

nanoseconds median_total(const std::vector<repetition>& all);
nanoseconds median_issue(const std::vector<repetition>& all);

// By the host's clock, from the first call until the GPU is idle.
repetition timed_by_host(const std::function<void()>& issue);
// By events around the work on a stream.
repetition timed_on(cudaStream_t stream, const std::function<void()>& issue);

// "64KiB": for names.
std::string bytes_text(byte_count bytes);

}  // namespace um::measure
