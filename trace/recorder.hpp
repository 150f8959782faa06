// Turns records of a program into the lines of its trace file (docs/trace.md), written as the program runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/bins.hpp"
#include "trace/driver_sums.hpp"
#include "trace/launches.hpp"
#include "trace/line_writer.hpp"
#include "trace/records.hpp"
#include "trace/unified_memory.hpp"

namespace um::tracing {

// Not safe for several threads at once: the owner locks. Records may come in any order within `grace` of each
// other.
class recorder {
 public:
  // Faults and migrations are given to kernels this long after they happened, when the kernel's record is
  // there too.
  static constexpr nanoseconds grace = 100'000'000;

  recorder(sinks to, nanoseconds start) : lines_(std::move(to), start), launches_(lines_) {}

  void add(const migration& m);
  void add(const gpu_fault& f);
  void add(const cpu_fault& f);
  void add(const contended& c);
  void add(const kernel& k) { launches_.add(k); }
  // A launch of a run without counting: only its times.
  void add_timed(const kernel& k);
  void add(const copy& c) { launches_.add(c); }
  void add(const allocation& a);
  void add(const release& r);
  void add(const hint& h);
  void add(const range& r);
  // Writes once that this trace lacks `what`.
  void note_missing(const std::string& what) { lines_.note_missing(what); }
  void lose(std::uint64_t records) { lost_ += records; }
  // Unified Memory is not counted between the two; `sums`: what the driver counted until then.
  void pause(nanoseconds at, const driver_sums& sums);
  void resume(nanoseconds at, const driver_sums& sums);

  // Writes events that are old enough at `now`.
  void write_until(nanoseconds now);
  // Writes everything that is left, and the last line. `sums`: the driver's, nullptr where it counts nothing.
  void finish(nanoseconds now, const driver_sums* sums = nullptr);

 private:
  // Sums of events that belong to no launch; they get a line of their own.
  struct sum_of_cause {
    const char* kind;  // kind of its line
    bin moved;
  };

  void split_by_block(event e, std::uint64_t address, std::uint64_t bytes);
  void assign_events(nanoseconds before, bool all);
  void add_to_sum_of_cause(const event& e);
  void write_line(sum_of_cause& of);
  void merge_old_events();

  line_writer lines_;
  launch_table launches_;
  std::vector<event> events_;  // not yet assigned to a launch or another line
  sum_of_cause host_{"host", {}}, user_{"prefetched", {}}, other_{"other", {}};
  nanoseconds paused_ = 0;  // time at which counting paused; 0 while it goes on
  driver_sums sums_at_pause_;
  std::uint64_t lost_ = 0, hints_ = 0, ranges_ = 0, timed_lines_ = 0;
};

// Adds what a record of CUPTI's or of the driver's events says.
void add(recorder& to, const unified_memory_record& r);

}  // namespace um::tracing
