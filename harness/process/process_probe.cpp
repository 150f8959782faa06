#include <time.h>

#include <fstream>
#include <string>

#include "harness/process/child.hpp"
#include "measure/host_memory.hpp"

namespace um {
namespace {

char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  const std::size_t name_end = line.rfind(')');  // the process name may contain any character
  return name_end == std::string::npos || name_end + 2 >= line.size() ? char{0} : line[name_end + 2];
}

// The number after `label` in a file of "label number" lines; 0 without it.
std::uint64_t parse_count_file(const std::filesystem::path& path, std::string_view label) {
  std::ifstream file(path);
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == label) return value;
  }
  return 0;
}

std::uint64_t out_of_memory_kill_count() {
  std::uint64_t sum = parse_count_file("/proc/vmstat", "oom_kill");
  if (const auto folder = own_cgroup()) sum += parse_count_file(*folder / "memory.events", "oom_kill");
  return sum;
}

std::optional<std::chrono::nanoseconds> processor_time_of(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return std::nullopt;
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace

process_probe make_proc_probe() {
  return {state_of, out_of_memory_kill_count, processor_time_of};
}

}  // namespace um
