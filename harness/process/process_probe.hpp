// Queries about a child process, as a value that tests can replace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace um {

struct process_probe {
  // The state letter of /proc/PID/stat: 'D' is uninterruptible sleep, which not even SIGKILL ends; 0 is
  // unknown.
  std::function<char(pid_t)> state;
  // Number of processes that the kernel has killed for lack of memory so far, here or in this cgroup.
  std::function<std::uint64_t()> out_of_memory_kills;
  // Processor time of the process, over all threads; nothing: unknown.
  std::function<std::optional<std::chrono::nanoseconds>(pid_t)> processor_time;
};

process_probe make_kernel_probe();

}  // namespace um
