#include "trace/uvm_tools.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace um::tracing {
namespace {

constexpr unsigned long init_tracker = 56, enable_events = 58, disable_events = 59, enable_counters = 60,
                        flush_tracked = 67;
constexpr std::uint32_t unanswered = 0xFFFFFFFF;

struct tracker_parameters {
  std::uint64_t queue = 0, queue_entries = 0;  // 0 for a tracker of counters
  std::uint64_t control = 0;
  std::array<std::uint8_t, 16> processor{};
  std::uint32_t all_processors = 1;
  std::uint32_t uvm_file = 0;
  // Older drivers write their answer here. Newer ones read a version here and write their answer after it.
  std::uint32_t version_or_answer = 0;
  std::array<std::uint32_t, 15> rest{};
};
static_assert(offsetof(tracker_parameters, version_or_answer) == 48);

struct switch_parameters {
  std::uint64_t event_mask = 0;
  std::uint32_t answer = unanswered;
  std::uint32_t padding = 0;
};

// Returns the descriptors of this process that refer to nvidia-uvm. One of them is its address space.
std::vector<int> uvm_files() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder)) {
    std::array<char, 64> target{};
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target.data(), target.size());
    if (length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) == "/dev/nvidia-uvm")
      found.push_back(std::atoi(entry->d_name));
  }
  closedir(folder);
  return found;
}

// Returns whether the driver accepted the command.
bool switch_by_command(int tools, unsigned long command, std::uint64_t event_mask) {
  switch_parameters parameters{.event_mask = event_mask};
  return ioctl(tools, command, &parameters) == 0 && parameters.answer == 0;
}

bool try_track(int tools, int uvm_file, std::uint32_t version, const tracked_memory& memory,
               std::uint64_t event_mask) {
  tracker_parameters tracker;
  tracker.queue = reinterpret_cast<std::uint64_t>(memory.queue);
  tracker.queue_entries = memory.entries;
  tracker.control = reinterpret_cast<std::uint64_t>(memory.control);
  tracker.uvm_file = static_cast<std::uint32_t>(uvm_file);
  tracker.version_or_answer = version;
  if (ioctl(tools, init_tracker, &tracker) != 0) return false;
  return switch_by_command(tools, memory.entries > 0 ? enable_events : enable_counters, event_mask);
}

constexpr std::size_t page_bytes = 4096;
// Indices into the driver's array of counters (UvmCounterName).
constexpr std::size_t bytes_to_gpus = 0, bytes_to_host = 1, cpu_fault_count = 2, gpu_fault_count = 9;

}  // namespace

tracker open_tracker(const tracked_memory& memory, std::uint64_t event_mask) {
  const std::uint32_t newest = memory.entries > 0 ? 1 : 2;  // events of version 2 have another layout
  for (const int uvm_file : uvm_files()) {
    for (std::uint32_t version = 0; version <= newest; ++version) {
      const int tools = open("/dev/nvidia-uvm-tools", O_RDWR | O_CLOEXEC);
      if (tools < 0) return {};
      if (try_track(tools, uvm_file, version, memory, event_mask)) return {tools, uvm_file};
      close(tools);
    }
  }
  return {};
}

bool switch_events(const tracker& of, bool on, std::uint64_t event_mask) {
  return switch_by_command(of.file, on ? enable_events : disable_events, event_mask);
}

void flush_events(const tracker& of) {
  std::uint32_t answer = unanswered;
  static_cast<void>(ioctl(of.uvm_file, flush_tracked, &answer));
}

driver_sums operator-(const driver_sums& a, const driver_sums& b) {
  return {a.to_gpus - b.to_gpus, a.to_host - b.to_host, a.cpu_faults - b.cpu_faults,
          a.gpu_faults - b.gpu_faults};
}

std::uint64_t lost_percent(const driver_sums& moved, const driver_sums& recorded) {
  constexpr std::uint64_t enough = 64 << 20;
  const std::uint64_t all = moved.to_gpus + moved.to_host, known = recorded.to_gpus + recorded.to_host;
  return all < enough || known >= all ? 0 : 100 * (all - known) / all;
}

void driver_counters::free_page::operator()(std::uint64_t* page) const {
  std::free(page);
}

driver_counters::driver_counters() = default;

driver_counters::~driver_counters() {
  if (file_ >= 0) close(file_);
}

bool driver_counters::begin() {
  if (counts()) return true;
  page_.reset(static_cast<std::uint64_t*>(std::aligned_alloc(page_bytes, page_bytes)));
  if (page_ == nullptr) return false;
  std::memset(page_.get(), 0, page_bytes);
  std::uint64_t event_mask = 0;
  for (const std::size_t place : {bytes_to_gpus, bytes_to_host, cpu_fault_count, gpu_fault_count})
    event_mask |= std::uint64_t{1} << place;
  file_ = open_tracker({.control = page_.get()}, event_mask).file;
  return counts();
}

driver_sums driver_counters::read() const {
  if (!counts()) return {};
  const auto at = [&](std::size_t place) { return __atomic_load_n(page_.get() + place, __ATOMIC_RELAXED); };
  return {at(bytes_to_gpus), at(bytes_to_host), at(cpu_fault_count), at(gpu_fault_count)};
}

}  // namespace um::tracing
