// The state of the injected library while the program runs.
//
// Threads:
//   the program's own   call back when CUDA is called; they hand work to the writer and never wait for it
//   fetcher             asks CUPTI for records, which come to take_buffer(), and says when counting pauses
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

// A callback of the traced program that counts Unified Memory as well.
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

  // The writer's own.
  recorder record;
  translator translate;
  std::map<call_stack, std::vector<std::string>> callers;  // each stack is named once
  follower follow = nullptr;
  nanoseconds followed_since = 0;

  std::mutex counting_mutex;        // guards the members up to the next mutex
  std::set<std::uint32_t> devices;  // GPUs with a context
  driver_counters driver;
  driver_events events;  // active() needs no lock
  bool may_count = true, by_cupti = false, trace_wants_faults = true;
  std::optional<bool> follower_wants_faults;                 // nothing without a follower
  driver_sums driver_sums_at_begin, recorded_sums_at_begin;  // when counting last began
  driver_sums driver_sums_at_last_look;                      // at the last check for lost records
  nanoseconds last_look = 0;

  std::mutex sleep_mutex;
  std::condition_variable wake_fetcher;
  std::thread fetcher;  // reads the driver's events

  std::atomic<bool> ended = false, counts = false;  // the program ends; counting is on
  std::atomic<bool> with_faults = true;             // since counting last began
  std::atomic<bool> records_came = false;           // records came with the last flush
  std::atomic<bool> has_managed_memory = false;     // the program has managed memory
  std::atomic<bool> draining = false;
  std::atomic<std::uint64_t> recorded_bytes_to_gpus = 0,
                             recorded_bytes_to_host = 0;  // bytes of all records
  pid_t owner = getpid();
};

// nullptr until the library has begun.
extern session* running;

nanoseconds now();
// Whether the session belongs to this process, not to one that it was forked from.
bool belongs_to_this_process();
// Writes that the trace lacks something.
void note_missing(const std::string& what);

// When Unified Memory is counted, and on which GPUs.

// CUPTI and the driver count once there is a context on a GPU.
void start_counting_on(std::uint32_t device);
// Pauses and goes on as the budget says. By the fetcher.
void pause_or_resume_by_budget(nanoseconds time);
// Reads the driver's new events; with `flush`, those of all finished work. By the fetcher.
void fetch_events(bool flush);
// Called once the program has ended.
void end_counting();
// Also passes each record to `each`, so that the program counts the same; nullptr ends it. `with_faults`:
// whether it needs faults. The trace keeps its own beside it, unless CUPTI counts, and then says that it
// lacks them. It marks the time between two calls as a range.
void set_follower(follower each, bool with_faults);
// Adds a record to the trace and to what counting has cost, and passes it to the follower. By the writer.
void take_record_of_memory(const unified_memory_record& r);

}  // namespace um::tracing
