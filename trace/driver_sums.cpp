#include "trace/driver_sums.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "trace/uvm_tools.hpp"

namespace um::tracing {
namespace {

constexpr std::size_t page_bytes = 4096;
// Places in the driver's array (UvmCounterName).
constexpr std::size_t bytes_to_gpus = 0, bytes_to_host = 1, cpu_fault_count = 2, gpu_fault_count = 9;

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
  std::uint64_t wanted = 0;
  for (const std::size_t place : {bytes_to_gpus, bytes_to_host, cpu_fault_count, gpu_fault_count})
    wanted |= std::uint64_t{1} << place;
  file_ = open_tracker({.control = page_.get()}, wanted).file;
  return counts();
}

driver_sums driver_counters::read() const {
  if (!counts()) return {};
  const auto at = [&](std::size_t place) { return __atomic_load_n(page_.get() + place, __ATOMIC_RELAXED); };
  return {at(bytes_to_gpus), at(bytes_to_host), at(cpu_fault_count), at(gpu_fault_count)};
}

}  // namespace um::tracing
