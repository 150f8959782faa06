// The state of the injected library while the program runs.
//
// Threads:
//   the program's own   call back when CUDA is called; they hand work to the writer and never wait for it
//   fetcher             asks CUPTI for records, which come to receive_buffer(), and pauses counting
//   writer              owns the recorder and all that feeds it
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "trace/driver_events.hpp"
#include "trace/output.hpp"
#include "trace/recorder.hpp"
#include "trace/records.hpp"
#include "trace/translate.hpp"
#include "trace/uvm_tools.hpp"
#include "trace/worker.hpp"

namespace um::tracing {

// A callback of a traced program that also counts Unified Memory; it gets every record.
using follower = void (*)(const void* record);

// Made once and never destroyed: CUPTI's threads may outlive static objects.
struct session {
  session(output to, nanoseconds start, bool only_times, double share)
      : file(to),
        budget(start, share),
        record({[to](std::string_view text) { to.write(text); }, place_of}, start),
        translate(record, only_times) {}

  output file;
  worker writer;
  counting_budget budget;

  // Used by the writer's thread only.
  recorder record;
  translator translate;
  std::map<call_stack, std::vector<std::string>> callers;  // places of stacks whose names have been looked up
  follower follow = nullptr;
  nanoseconds followed_since = 0;  // when `follow` was set

  std::mutex counting_mutex;        // guards the members up to the next mutex
  std::set<std::uint32_t> devices;  // GPUs with a context
  driver_counters driver;
  driver_events events;  // active() needs no lock
  bool may_count = true, by_cupti = false, trace_wants_faults = true;
  std::optional<bool> follower_wants_faults;  // nothing without a follower
  driver_sums driver_sums_at_begin,
      sums_of_records_at_begin;           // values at the time at which counting last began
  driver_sums driver_sums_at_last_check;  // at the last check for lost records
  nanoseconds last_loss_check = 0;

  std::mutex sleep_mutex;
  std::condition_variable wake_fetcher;
  std::thread fetcher;  // reads the driver's events

  std::atomic<bool> ended = false, counts = false;  // the program ends; counting is on
  std::atomic<bool> with_faults = true;             // whether faults are counted since counting last began
  std::atomic<bool> records_came = false;           // the last flush returned records
  std::atomic<bool> has_managed_memory = false;     // the program has managed memory
  std::atomic<bool> write_is_pending = false;
  std::atomic<std::uint64_t> recorded_bytes_to_gpus = 0,
                             recorded_bytes_to_host = 0;  // sums of the bytes of all records
  pid_t owner = getpid();
};

// The session of this process; nullptr until the library has been initialised.
extern session* running;

nanoseconds now();
// Whether the session belongs to this process, not to one that it was forked from.
bool belongs_to_this_process();
// Writes that the trace lacks something.
void note_missing(const std::string& what);

// Functions that start and stop the counting of Unified Memory.

// Starts counting on a GPU, once it has a context.
void start_counting_on(std::uint32_t device);
// Pauses or resumes counting as the budget says. For the fetcher's thread.
void pause_or_resume_by_budget(nanoseconds time);
// Reads the driver's new events; with `flush`, those of all finished work. For the fetcher's thread.
void fetch_events(bool flush);
// Stops counting when the program has ended.
void end_counting();
// From now on also passes each record to `each`, so that the program counts the same; nullptr ends that.
// `with_faults` says whether the program needs faults. If it does not and CUPTI counts, the trace lacks
// faults meanwhile and says so. The trace has a range for the time between two calls.
void set_follower(follower each, bool with_faults);
// Adds a record to the trace, its cost to the budget, and passes it to the follower. For the writer's thread.
void take_unified_memory_record(const unified_memory_record& r);

}  // namespace um::tracing
