// Small programs whose migrations of managed memory are known in advance. Each is run alone:
//   um_trace_programs NAME [--fixed] [--mib N]
// It prints one line of JSON: name, seconds of the part that counts, bytes that must move each way.
#pragma once

#include <cstddef>
#include <span>

namespace um::programs {

struct expected_traffic {
  double seconds = 0;
  // Bytes moved by faults (and by the driver's own prefetching), and by prefetches; negative: unknown.
  double fault_in = -1, fault_out = -1, prefetch_in = -1, prefetch_out = -1;
};

struct program {
  const char* name;
  const char*
      planted_finding;  // the finding that umbench explain must name first; "" for a program without a fault
  expected_traffic (*run)(std::size_t bytes, bool fixed);
};

std::span<const program> all_programs();

}  // namespace um::programs
