// Small programs in managed memory of which it is known what must move. Each is run alone:
//   um_trace_programs NAME [--fixed] [--mib N]
// It prints one line of JSON: name, seconds of the part that counts, bytes that must move each way.
#pragma once

#include <cstddef>
#include <span>

namespace um::programs {

struct truth {
  double seconds = 0;
  // Bytes by faults (demand and what the driver brings along), and by prefetches; negative: not known.
  double fault_in = -1, fault_out = -1, prefetch_in = -1, prefetch_out = -1;
};

struct program {
  const char* name;
  const char*
      planted_finding;  // the finding that umbench explain must name first; "" for a program without a fault
  truth (*run)(std::size_t bytes, bool fixed);
};

std::span<const program> all_programs();

}  // namespace um::programs
