// Tells that a command still works: a line on standard error after two seconds, then at growing distances.
#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace um {

class progress {
 public:
  // "planning": says "umbench: planning, 5 s so far".
  explicit progress(std::string what);
  // Says the line if one is due. Costs next to nothing otherwise.
  void tick();

 private:
  std::string what_;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::seconds next_{2};
};

// Ticks beside what this thread does, until it is destroyed. For processes that start no other ones.
std::jthread ticking(std::string what);

}  // namespace um
