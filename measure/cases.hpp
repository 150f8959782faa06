// Microbenchmarks as values: a case says what it measures and prepares a trial; a trial puts
// residency back and does the work once. A family is a function from the device's facts to cases, and
// families() the table of them.
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

// One repetition. `issue` is when the last call had returned.
struct repetition {
  nanoseconds total = 0, issue = 0;
  std::map<std::string, double> more;  // counters of the case's own, units in their names
};

struct trial {
  std::function<void()> put_back;  // waits until it is done
  std::function<repetition()> run;
};

enum class way : std::uint8_t { none, to_device, to_host, both };

struct measurement {
  std::string name;                      // family/what/axis:value
  byte_count bytes = 0;                  // that the work asks for; 0 where it is no transfer
  way over_link = way::none;             // the pinned copy rate that GB/s are a share of
  std::string put_back;                  // how residency is put back before every repetition
  bool migrates = false;                 // managed memory moves, so that counting is worth a pass
  byte_count brings_in = 0;              // what the driver moves to the device, where that is certain
  byte_count brings_out = 0;             // and to the host; counts that show less are not whole
  int repetitions = 4;                   // after the first, unless they take long
  std::function<trial(bench&)> prepare;  // throws unsupported or out_of_memory with the reason
};

struct samples {
  repetition first;
  std::vector<repetition> later;
};

// A first repetition, then as many again as asked for.
samples take(bench& on, const measurement& what, int repetitions);
// A first repetition, then as many as the case asks for: more of short ones, fewer of long ones.
samples take_for_a_while(bench& on, const measurement& what);

nanoseconds median_total(const std::vector<repetition>& all);
nanoseconds median_issue(const std::vector<repetition>& all);

// By the host's clock, from the first call until the GPU is idle.
repetition timed(const std::function<void()>& issue);
// By events around the work on a stream.
repetition timed_on(cudaStream_t stream, const std::function<void()>& issue);

// "64KiB": for names.
std::string in_name(byte_count bytes);

}  // namespace um::measure
