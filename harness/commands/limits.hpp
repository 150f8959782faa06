// Limits on processor time and memory while a command reads files in its own process.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>

namespace um {

// Files that are made to be slow or large end as other bad input does: a line that names `what`, and exit
// code 2. One at a time.
class limits {
 public:
  static constexpr std::chrono::seconds reading_time{60};

  // Of processor time, as a slow machine or others on it must not matter. With `memory`, at most 4 GiB more
  // than there is now, beyond which std::bad_alloc is thrown; not for processes that open a GPU, which
  // reserve addresses.
  limits(const std::string& what, std::chrono::seconds processor, bool memory = true);
  ~limits();
  limits(const limits&) = delete;
  limits& operator=(const limits&) = delete;

 private:
  std::optional<rlimit> previous_memory_limit_;
};

}  // namespace um
