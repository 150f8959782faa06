// Launches of kernels: which of them ran when something moved, and their lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/bins.hpp"
#include "trace/line_writer.hpp"
#include "trace/records.hpp"

namespace um::tracing {

struct launch {
  nanoseconds begin = 0, end = 0;
  std::uint32_t gpu = 0, stream = 0, name = 0;
  std::uint64_t number = 0;  // of the launches of that name on that GPU
  bin moved;
};

// Launches and copies that have no line of their own, summed over a second of a GPU.
class quiet_lines {
 public:
  explicit quiet_lines(line_writer& to) : to_(to) {}
  // `counted`: Unified Memory was counted all the while, so that a launch here is known to have moved
  // nothing.
  void add(const launch& l, bool counted);
  void add(const copy& c);
  void finish();

 private:
  struct total {
    std::uint64_t count = 0, bytes = 0;
    nanoseconds busy = 0;
    void add(std::uint64_t more, nanoseconds time);
  };
  struct stretch {
    nanoseconds begin = 0, end = 0;
    std::map<std::uint32_t, total> kernels;  // by name
    std::map<std::string, total> copies;     // by way
  };
  using key = std::pair<std::uint32_t, bool>;  // GPU, counted

  stretch& at(key of, nanoseconds begin, nanoseconds end);
  void write(key of, stretch& s);

  line_writer& to_;
  std::map<key, stretch> open_;
};

class launch_table {
 public:
  explicit launch_table(line_writer& to) : to_(to), quiet_(to) {}

  void add(const kernel& k);
  void add(const copy& c) { quiet_.add(c); }
  // The number of the next launch of that name on that GPU.
  std::uint64_t next_number(std::uint32_t gpu, std::uint32_t name) { return numbers_[{gpu, name}]++; }
  // From now on launches that move nothing may have moved something unseen, until count() says otherwise.
  void miss(nanoseconds from);
  void count(nanoseconds from);

  void sort();
  // Gives an event to the last launch that had begun and not ended; false without one. Needs sort().
  bool take(const event& e);
  // Whether a launch that moved something began after `after` and not later than `until`. Needs sort().
  bool began_between(nanoseconds after, nanoseconds until) const;
  // Writes and forgets those that ended before.
  void write(nanoseconds before);
  void finish();

 private:
  launch* find(const event& e);
  bool was_counted(const launch& l) const;

  line_writer& to_;
  quiet_lines quiet_;
  std::map<std::uint32_t, std::vector<launch>> by_gpu_;
  std::vector<nanoseconds> busy_;  // begins of launches that moved something
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> numbers_;  // by GPU and name
  std::vector<std::pair<nanoseconds, nanoseconds>> missed_;  // when nothing was counted; end 0: still
};

}  // namespace um::tracing
