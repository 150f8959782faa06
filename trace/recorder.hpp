// Turns records of a program into the lines of its trace file (docs/trace.md), written as the program runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "trace/bins.hpp"
#include "trace/line_writer.hpp"
#include "trace/records.hpp"
#include "trace/uvm_tools.hpp"

namespace um::tracing {

struct launch {
  nanoseconds begin = 0, end = 0;
  std::uint32_t gpu = 0, stream = 0, name = 0;
  std::uint64_t number = 0;  // counts the launches of that name on that GPU
  bin moved;                 // what its faults moved
};

// Sums launches and copies that get no line of their own, a second of a GPU at a time.
class summed_launches {
 public:
  explicit summed_launches(line_writer& to) : writer_(to) {}
  // `counted`: Unified Memory was counted during the launch, so it is known to have moved nothing.
  void add(const launch& l, bool counted) {
    at({l.gpu, counted}, l.begin, l.end).kernels[l.name].add(0, l.end - l.begin);
  }
  void add(const copy& c) {
    at({c.gpu, true}, c.begin, c.end).copies[std::string(c.direction)].add(c.bytes, c.end - c.begin);
  }
  void finish() {
    for (auto& [of, s] : slices_) write(of, s);
  }

 private:
  struct total {
    std::uint64_t count = 0, bytes = 0;
    nanoseconds busy = 0;  // sum of their durations
    void add(std::uint64_t more, nanoseconds time);
  };
  struct time_slice {
    nanoseconds begin = 0, end = 0;
    std::map<std::uint32_t, total> kernels;  // by name
    std::map<std::string, total> copies;     // by way
  };
  using key = std::pair<std::uint32_t, bool>;  // GPU, counted

  time_slice& at(key of, nanoseconds begin, nanoseconds end);
  void write(key of, time_slice& s);

  line_writer& writer_;
  std::map<key, time_slice> slices_;
};

class launch_table {
 public:
  explicit launch_table(line_writer& to) : writer_(to), summed_(to) {}

  void add(const kernel& k);
  void add(const copy& c) { summed_.add(c); }
  // The number of the next launch of that name on that GPU.
  std::uint64_t next_number(std::uint32_t gpu, std::uint32_t name) { return next_numbers_[{gpu, name}]++; }
  // Between the two calls Unified Memory is not counted, so launches may move data without a record.
  void counting_paused(nanoseconds from) { uncounted_.emplace_back(from, 0); }
  void counting_resumed(nanoseconds from) {
    if (!uncounted_.empty()) uncounted_.back().second = from;
  }

  void sort();
  // Adds an event to the last launch that had begun and not ended; false if there is none. Needs sort().
  bool add_to_launch(const event& e);
  // Whether a launch that moved something began after `after` and not later than `until`. Needs sort().
  bool has_moving_launch_between(nanoseconds after, nanoseconds until) const;
  // Writes and forgets those that ended before.
  void write(nanoseconds before);
  void finish() { summed_.finish(); }

 private:
  launch* find(const event& e);
  bool was_counted(const launch& l) const;

  line_writer& writer_;
  summed_launches summed_;
  std::map<std::uint32_t, std::vector<launch>> by_gpu_;
  std::vector<nanoseconds> begins_of_moving_launches_;  // begins of launches that moved something
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> next_numbers_;  // by GPU and name
  std::vector<std::pair<nanoseconds, nanoseconds>>
      uncounted_;  // begin and end of times without counting; end 0: not ended
};

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
  void add(const release& r) {
    lines_.line(kind("free") + lines_.time("at_ns", r.at) + field("address", r.address));
  }
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

// Counting may take a share of the time since the start, and a second more, so that short programs are
// counted whole. Beyond that it pauses until the budget allows a quarter of a second. One thread may spend
// while another asks.
class counting_budget {
 public:
  counting_budget(nanoseconds start, double share) : start_(start), share_(share) {}

  void spend(nanoseconds cost) { spent_ += cost; }
  // Whether to count from now on.
  bool may_count(nanoseconds now) {
    const auto allowed =
        initial_allowance + static_cast<nanoseconds>(share_ * static_cast<double>(now - start_));
    const nanoseconds left = allowed - spent_;
    counting_ = share_ >= 1 || left >= (counting_ ? 0 : resume_threshold);
    return counting_;
  }

 private:
  static constexpr nanoseconds initial_allowance = 1'000'000'000, resume_threshold = 250'000'000;
  nanoseconds start_;
  std::atomic<nanoseconds> spent_ = 0;  // time spent on counting
  double share_;
  bool counting_ = true;
};

}  // namespace um::tracing
