// Limits on processor time and memory while a command reads files in its own process.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>

namespace um {

// A file that takes too long or too much memory to read ends the command like other bad input: one line that
// names `input`, and exit code 2. Only one object at a time.
class process_limits {
 public:
  static constexpr std::chrono::seconds max_reading_time{60};

  // Limits processor time, which a slow or busy machine does not change. With `limits_memory`, memory is
  // limited to 4 GiB more than now: std::bad_alloc is thrown beyond. Not for processes that open a GPU, which
  // reserve addresses.
  process_limits(const std::string& input, std::chrono::seconds max_processor_time,
                 bool limits_memory = true);
  ~process_limits();
  process_limits(const process_limits&) = delete;
  process_limits& operator=(const process_limits&) = delete;

 private:
  std::optional<rlimit> previous_memory_limit_;
};

}  // namespace um
