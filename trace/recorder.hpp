// Turns records of a program into the lines of its trace file (docs/trace.md), written as the program runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "trace/event_sums.hpp"
#include "trace/line_writer.hpp"
#include "trace/records.hpp"
#include "trace/uvm_tools.hpp"

namespace um::tracing {

struct launch {
  nanoseconds begin = 0, end = 0;
  std::uint32_t gpu = 0, stream = 0, name = 0;
  std::uint64_t number = 0;  // counts the launches of that name on that GPU
  event_sums moved;          // what its faults moved
};

// Sums launches and copies that do not get their own line, in time slices of a second for each GPU.
class summed_launches {
 public:
  explicit summed_launches(line_writer& to) : writer_(to) {}
  // `counted` says that Unified Memory was counted during the launch, so that it moved nothing.
  void add(const launch& l, bool counted) {
    slice_for({l.gpu, counted}, l.begin, l.end).kernels[l.name].add(0, l.end - l.begin);
  }
  void add(const copy& c) {
    slice_for({c.gpu, true}, c.begin, c.end).copies[std::string(c.direction)].add(c.bytes, c.end - c.begin);
  }
  void finish() {
    for (auto& [of, s] : slices_) write(of, s);
  }

 private:
  struct total {
    std::uint64_t count = 0, bytes = 0;
    nanoseconds busy = 0;  // sum of their durations
    void add(std::uint64_t more_bytes, nanoseconds time);
  };
  struct time_slice {
    nanoseconds begin = 0, end = 0;
    std::map<std::uint32_t, total> kernels;  // by name
    std::map<std::string, total> copies;     // by direction
  };
  using key = std::pair<std::uint32_t, bool>;  // GPU, and whether Unified Memory was counted

  time_slice& slice_for(key of, nanoseconds begin, nanoseconds end);
  void write(key of, time_slice& s);

  line_writer& writer_;
  std::map<key, time_slice> slices_;
};

class launch_table {
 public:
  explicit launch_table(line_writer& to) : writer_(to), summed_(to) {}

  void add(const kernel& k);
  void add(const copy& c) { summed_.add(c); }
  // Returns the number of the next launch of that name on that GPU, and increments it.
  std::uint64_t next_number(std::uint32_t gpu, std::uint32_t name) { return next_numbers_[{gpu, name}]++; }
  // From this call to end_uncounted() Unified Memory is not counted, so launches may move data without a
  // record.
  void begin_uncounted(nanoseconds from) { uncounted_.emplace_back(from, 0); }
  void end_uncounted(nanoseconds from) {
    if (!uncounted_.empty()) uncounted_.back().second = from;
  }

  void sort();
  // Adds an event to the last launch that had begun and not ended; false if there is none. Needs sort().
  bool add_to_launch(const event& e);
  // Whether a launch that moved something began after `after` and not later than `until`. Needs sort().
  bool has_moving_launch_between(nanoseconds after, nanoseconds until) const;
  // Writes and removes the launches that ended before that time.
  void write_ended_launches(nanoseconds before);
  void finish() { summed_.finish(); }

 private:
  launch* find_launch(const event& e);
  bool was_counted(const launch& l) const;

  line_writer& writer_;
  summed_launches summed_;
  std::map<std::uint32_t, std::vector<launch>> by_gpu_;
  std::vector<nanoseconds> begins_of_moving_launches_;  // begins of launches that moved something
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> next_numbers_;  // by GPU and name
  std::vector<std::pair<nanoseconds, nanoseconds>>
      uncounted_;  // begin and end of times without counting; end 0: not ended
};

// Not thread-safe. Records that are less than `assignment_delay` apart may come in any order.
class recorder {
 public:
  // Faults and migrations are assigned to kernels this long after they happened, when the record of the
  // kernel has arrived, too.
  static constexpr nanoseconds assignment_delay = 100'000'000;

  recorder(writer_options to, nanoseconds start) : lines_(std::move(to), start), launches_(lines_) {}

  void add(const migration& m);
  void add(const gpu_fault& f);
  void add(const cpu_fault& f);
  void add(const contention_event& c);
  void add(const kernel& k) { launches_.add(k); }
  // Adds a launch of a run without counting, of which only the times are known.
  void add_timed(const kernel& k);
  void add(const copy& c) { launches_.add(c); }
  void add(const allocation& a);
  void add(const release& r) {
    lines_.write_line(kind_field("free") + lines_.time_field("at_ns", r.at) + field("address", r.address));
  }
  void add(const hint& h);
  void add(const range& r);
  // Writes once that this trace lacks `what`.
  void note_missing(const std::string& what) { lines_.note_missing(what); }
  void add_lost_records(std::uint64_t records) { lost_records_ += records; }
  // From pause() to resume() Unified Memory is not counted. `sums` are the driver's at that time.
  void pause(nanoseconds at, const driver_sums& sums);
  void resume(nanoseconds at, const driver_sums& sums);

  // Writes the events older than assignment_delay at the time `now`, and the launches older than twice that.
  void write_settled(nanoseconds now);
  // Writes all remaining events and the last line. `sums` are the driver's, nullptr if it does not count.
  void finish(nanoseconds now, const driver_sums* sums = nullptr);

 private:
  // Sums of events that belong to no launch; they get a line of their own.
  struct sum_of_cause {
    const char* kind;  // kind of its line
    event_sums moved;
  };

  void split_by_block(event e, std::uint64_t address, std::uint64_t bytes);
  void assign_events(nanoseconds before, bool at_end);
  void add_to_sum_of_cause(const event& e);
  void write_sum(sum_of_cause& of);
  void merge_old_events();

  line_writer lines_;
  launch_table launches_;
  std::vector<event> events_;  // not yet assigned to a launch or another line
  sum_of_cause host_{"host", {}}, user_{"prefetched", {}}, other_{"other", {}};
  nanoseconds paused_at_ = 0;  // time at which counting paused; 0 while it goes on
  driver_sums sums_at_pause_;
  std::uint64_t lost_records_ = 0, hint_count_ = 0, range_count_ = 0, timed_line_count_ = 0;
};

// Adds a record of CUPTI or of the driver's events.
void add(recorder& to, const unified_memory_record& r);

// Limits the time that counting takes to one second plus a share of the time since the start. The second lets
// short programs be counted whole. Beyond that counting pauses until the budget allows a quarter of a second.
// One thread may call spend() while another calls may_count().
class counting_budget {
 public:
  counting_budget(nanoseconds start, double share) : start_(start), share_(share) {}

  void spend(nanoseconds cost) { spent_ += cost; }
  // Returns whether to count from now on.
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
