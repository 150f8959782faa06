// Turns records of a program into the lines of its trace file (docs/trace.md), written as the program runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/bins.hpp"
#include "trace/records.hpp"

namespace um::tracing {

struct sinks {
  std::function<void(std::string_view)> write;      // whole lines, each with its end of line
  std::function<std::string(std::uint64_t)> place;  // a program counter as module+0xoffset
  std::uint64_t most_bytes = 45'000'000;            // of lines that tell blocks
};

// Not safe for several threads at once. Records may come in any order within `grace` of each other.
class recorder {
 public:
  // Faults and migrations are given to kernels this long after they happened, when the kernel's record is
  // there too.
  static constexpr nanoseconds grace = 100'000'000;

  recorder(sinks to, nanoseconds start);

  void add(const migration& m);
  void add(const gpu_fault& f);
  void add(const cpu_fault& f);
  void add(const contended& c);
  void add(const kernel& k);
  // Of a run in which nothing is counted: its times alone.
  void add_timed(const kernel& k);
  void add(const copy& c);
  void add(const allocation& a);
  void add(const release& r);
  void add(const hint& h);
  void add(const range& r);
  // A sentence on what this trace does not have; each is written once.
  void lack(const std::string& what);
  void lose(std::uint64_t records) { lost_ += records; }

  // Writes what is old enough at `now`.
  void drain(nanoseconds now);
  // Writes everything that is left, and the last line.
  void finish(nanoseconds now);

 private:
  struct launch {
    nanoseconds begin = 0, end = 0;
    std::uint32_t gpu = 0, stream = 0, name = 0;
    std::uint64_t number = 0;  // of the launches of that name on that GPU
    bin moved;
  };
  struct total {
    std::uint64_t count = 0, bytes = 0;
    nanoseconds busy = 0;
  };
  // A stretch without a line of its own for each launch.
  struct stretch {
    nanoseconds begin = 0, end = 0;
    std::map<std::uint32_t, total> kernels;  // by name
    std::map<std::string, total> copies;     // by way
  };

  void split(event e, std::uint64_t address, std::uint64_t bytes);
  launch* launch_at(const event& e);
  void settle(nanoseconds before, bool all);
  void settle_elsewhere(bin& into, const char* kind, const event& e);
  void close(bin& of, const char* kind);
  void write_launches(nanoseconds before);
  void write_launch(const launch& l);
  stretch& quiet_at(std::uint32_t gpu, nanoseconds begin, nanoseconds end);
  void write_quiet(std::uint32_t gpu, stretch& s);
  void compress();
  void line(const std::string& fields);
  void block_line(const std::string& fields);
  bool below_limit(std::uint64_t& lines, const char* what);
  std::string places(const std::vector<std::string>& called);
  std::uint32_t name_of(std::string_view text);

  sinks to_;
  nanoseconds start_;
  std::string text_;
  std::vector<event> events_;                              // not yet given to anybody
  std::map<std::uint32_t, std::vector<launch>> launches_;  // by GPU
  std::vector<nanoseconds> busy_;                          // begins of launches that moved something
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> launched_;  // by GPU and name
  std::unordered_map<std::string, std::uint32_t> names_;
  std::map<std::uint32_t, stretch> quiet_;  // by GPU
  bin host_, user_, other_;  // what the CPU asked for, what prefetches did, what no launch explains
  std::vector<std::string> lacking_;
  std::uint64_t lost_ = 0, hints_ = 0, ranges_ = 0, timed_ = 0, block_bytes_written_ = 0;
};

}  // namespace um::tracing
