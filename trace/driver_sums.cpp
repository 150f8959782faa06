#include "trace/driver_sums.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace um::tracing {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr unsigned long init_tracker = 56, enable_counters = 60;
constexpr std::uint32_t unanswered = 0xFFFFFFFF;
// Places in the driver's array (UvmCounterName).
constexpr std::size_t bytes_to_gpus = 0, bytes_to_host = 1, cpu_fault_count = 2, gpu_fault_count = 9;

struct tracker_parameters {
  std::uint64_t queue = 0, queue_entries = 0;  // no queue: counters only
  std::uint64_t counters = 0;
  std::array<std::uint8_t, 16> processor{};
  std::uint32_t all_processors = 1;
  std::uint32_t uvm_file = 0;
  // Older drivers answer here; newer ones read a version and answer behind it.
  std::uint32_t version_or_answer = 0;
  std::array<std::uint32_t, 15> rest{};
};
static_assert(offsetof(tracker_parameters, version_or_answer) == 48);

struct counter_parameters {
  std::uint64_t wanted = 0;
  std::uint32_t answer = unanswered;
  std::uint32_t padding = 0;
};

// Open files of this process that lead to nvidia-uvm: one of them is its address space.
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

bool enable_counter(int tools, int uvm_file, std::uint32_t version, std::uint64_t* into) {
  tracker_parameters tracker;
  tracker.counters = reinterpret_cast<std::uint64_t>(into);
  tracker.uvm_file = static_cast<std::uint32_t>(uvm_file);
  tracker.version_or_answer = version;
  if (ioctl(tools, init_tracker, &tracker) != 0) return false;
  counter_parameters counters;
  for (const std::size_t place : {bytes_to_gpus, bytes_to_host, cpu_fault_count, gpu_fault_count})
    counters.wanted |= std::uint64_t{1} << place;
  // It fails where the tracker was refused.
  return ioctl(tools, enable_counters, &counters) == 0 && counters.answer == 0;
}

}  // namespace

driver_sums operator-(const driver_sums& a, const driver_sums& b) {
  return {a.to_gpus - b.to_gpus, a.to_host - b.to_host, a.cpu_faults - b.cpu_faults,
          a.gpu_faults - b.gpu_faults};
}

std::uint64_t lost_percent(const driver_sums& moved, const driver_sums& told) {
  constexpr std::uint64_t enough = 64 << 20;
  const std::uint64_t all = moved.to_gpus + moved.to_host, known = told.to_gpus + told.to_host;
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
  for (const int uvm_file : uvm_files()) {
    for (const std::uint32_t version : {0U, 1U, 2U}) {
      const int tools = open("/dev/nvidia-uvm-tools", O_RDWR | O_CLOEXEC);
      if (tools < 0) return false;
      if (enable_counter(tools, uvm_file, version, page_.get())) {
        file_ = tools;
        return true;
      }
      close(tools);
    }
  }
  return false;
}

driver_sums driver_counters::read() const {
  if (!counts()) return {};
  const auto at = [&](std::size_t place) { return __atomic_load_n(page_.get() + place, __ATOMIC_RELAXED); };
  return {at(bytes_to_gpus), at(bytes_to_host), at(cpu_fault_count), at(gpu_fault_count)};
}

}  // namespace um::tracing
