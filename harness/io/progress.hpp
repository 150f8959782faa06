// Shows that a command still works: a line on standard error after two seconds, then at growing intervals.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace um {

class progress {
 public:
  // `task`: "planning" prints "umbench: planning, 5 s so far".
  explicit progress(std::string task);
  // Adds a note to the next lines: "umbench: planning, 3 of 20 done, 5 s so far".
  void note(std::string news) { note_ = std::move(news); }
  // Prints the line if it is due; cheap otherwise.
  void tick();

 private:
  std::string text_, note_;
  std::chrono::steady_clock::time_point start_time_;
  std::chrono::seconds next_print_{2};
};

// Prints progress from a separate thread until it is destroyed. For processes that do not fork only.
class progress_thread {
 public:
  explicit progress_thread(std::string task);
  // See progress::note. Any thread may call it.
  void note(std::string news);

 private:
  std::mutex lines_mutex_;  // protects lines_
  progress lines_;
  std::jthread thread_;  // declared last, since the thread uses the other members
};

}  // namespace um
