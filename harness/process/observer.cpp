#include "harness/process/observer.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <set>
#include <utility>

#include "core/errors.hpp"

namespace um {
namespace {

// The part of NVML's binary interface that is used here (NVML API reference). It has never changed.
using device = void*;
constexpr int success = 0, missing = -1;
constexpr unsigned sm_clock = 1, memory_clock = 2, core_sensor = 0;

struct process {
  unsigned id = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

struct throttle_row {
  unsigned long long bit;
  const char* name;
};
constexpr std::array<throttle_row, 9> throttle_rows{{{0x1, "gpu_idle"},
                                                     {0x2, "applications_clocks_setting"},
                                                     {0x4, "sw_power_cap"},
                                                     {0x8, "hw_slowdown"},
                                                     {0x10, "sync_boost"},
                                                     {0x20, "sw_thermal_slowdown"},
                                                     {0x40, "hw_thermal_slowdown"},
                                                     {0x80, "hw_power_brake_slowdown"},
                                                     {0x100, "display_clock_setting"}}};

std::vector<std::string> names_of(unsigned long long bits) {
  std::vector<std::string> names;
  for (const throttle_row& row : throttle_rows) {
    if ((bits & row.bit) != 0) names.emplace_back(row.name);
    bits &= ~row.bit;
  }
  if (bits != 0) names.push_back(fmt::format("{:#x}", bits));
  return names;
}

template <std::size_t N>
std::string name_of_value(unsigned value, const std::array<const char*, N>& names) {
  return value < N ? names[value] : std::to_string(value);
}

nanoseconds host_cpu_now() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return nanoseconds{t.tv_sec} * 1'000'000'000 + nanoseconds{t.tv_usec} * 1'000;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

}  // namespace

struct nvml::library {
  explicit library(const char* name) : opened(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (opened == nullptr) throw unsupported(fmt::format("no NVML: {}", dlerror()));
    const auto start = function<int (*)()>("nvmlInit_v2");
    const int status = start == nullptr ? missing : start();
    if (status == success) return;
    const std::string why =
        start == nullptr ? fmt::format("{} lacks nvmlInit_v2", name) : status_text(status);
    dlclose(opened);
    throw unsupported("no NVML: " + why);
  }
  ~library() {
    if (const auto stop = function<int (*)()>("nvmlShutdown")) stop();
    dlclose(opened);
  }
  library(const library&) = delete;
  library& operator=(const library&) = delete;

  // The function of that name; nullptr if this driver's library lacks it.
  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(opened, name));
  }

  std::string status_text(int status) const {
    const auto text = function<const char* (*)(int)>("nvmlErrorString");
    return text == nullptr ? fmt::format("error {}", status) : text(status);
  }

  // Whether the function exists and succeeded.
  template <class... Arguments>
  bool call_function(const char* name, Arguments... arguments) const {
    const auto called = function<int (*)(Arguments...)>(name);
    return called != nullptr && called(arguments...) == success;
  }

  template <class Number = unsigned, class... Selector>
  std::optional<std::uint64_t> query_number(const char* name, device of, Selector... which) const {
    Number value = 0;
    return call_function(name, of, which..., &value) ? std::optional<std::uint64_t>(value) : std::nullopt;
  }
  // Queries a property of the link.
  std::optional<std::uint64_t> query_link_state(const char* name, device of) const {
    unsigned now = 0, pending = 0;
    return call_function(name, of, &now, &pending) ? std::optional<std::uint64_t>(now) : std::nullopt;
  }
  std::optional<std::set<unsigned>> processes(const char* name, device of) const {
    std::array<process, 256> all;
    auto count = static_cast<unsigned>(all.size());
    if (!call_function(name, of, &count, all.data())) return std::nullopt;
    std::set<unsigned> ids;
    for (unsigned i = 0; i < count; ++i) ids.insert(all[i].id);
    return ids;
  }

  void* opened;
};

nvml::nvml(const std::string& bus_id, const char* library_name)
    : library_(std::make_unique<library>(library_name)) {
  const auto find = library_->function<int (*)(const char*, device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (find == nullptr)
    throw unsupported("this driver's NVML is too old: it lacks nvmlDeviceGetHandleByPciBusId_v2");
  if (const int status = find(bus_id.c_str(), &device_); status != success) {
    throw unsupported(fmt::format("NVML does not know GPU {}: {}", bus_id, library_->status_text(status)));
  }
}

nvml::~nvml() = default;
nvml::nvml(nvml&&) noexcept = default;

fact_sheet nvml::facts() const {
  constexpr std::array off_on{"off", "on"};
  constexpr std::array compute_modes{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  constexpr std::array virtualizations{"none", "passthrough", "vgpu", "host_vgpu", "host_vsga"};
  constexpr const char* why_not = "NVML does not tell";
  fact_sheet facts;
  const auto named = [&](const char* fact, std::optional<std::uint64_t> value, const auto& names) {
    facts.add(fact, value ? std::optional(name_of_value(static_cast<unsigned>(*value), names)) : std::nullopt,
              why_not);
  };
  const auto plain = [&](const char* fact, std::optional<std::uint64_t> value) {
    facts.add(fact, value ? std::optional(std::to_string(*value)) : std::nullopt, why_not);
  };
  named("mig", library_->query_link_state("nvmlDeviceGetMigMode", device_), off_on);
  named("persistence", library_->query_number("nvmlDeviceGetPersistenceMode", device_), off_on);
  named("compute_mode", library_->query_number("nvmlDeviceGetComputeMode", device_), compute_modes);
  named("virtualization", library_->query_number("nvmlDeviceGetVirtualizationMode", device_),
        virtualizations);
  plain("power_limit_mw", library_->query_number("nvmlDeviceGetEnforcedPowerLimit", device_));
  plain("most_sm_clock_mhz", library_->query_number("nvmlDeviceGetMaxClockInfo", device_, sm_clock));
  plain("most_memory_clock_mhz", library_->query_number("nvmlDeviceGetMaxClockInfo", device_, memory_clock));
  const auto clients = library_->processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", device_);
  named("mps", clients ? std::optional<std::uint64_t>(clients->empty() ? 0 : 1) : std::nullopt, off_on);
  return facts;
}

gpu_state nvml::state() const {
  gpu_state s;
  s.sm_clock_mhz = library_->query_number("nvmlDeviceGetClockInfo", device_, sm_clock);
  s.memory_clock_mhz = library_->query_number("nvmlDeviceGetClockInfo", device_, memory_clock);
  s.temperature_c = library_->query_number("nvmlDeviceGetTemperature", device_, core_sensor);
  s.power_mw = library_->query_number("nvmlDeviceGetPowerUsage", device_);
  s.pcie_generation = library_->query_number("nvmlDeviceGetCurrPcieLinkGeneration", device_);
  s.pcie_width = library_->query_number("nvmlDeviceGetCurrPcieLinkWidth", device_);
  if (const auto bits =
          library_->query_number<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device_)) {
    s.throttled_by = names_of(*bits);
  }
  auto computing = library_->processes("nvmlDeviceGetComputeRunningProcesses_v3", device_);
  if (computing) {
    const auto drawing = library_->processes("nvmlDeviceGetGraphicsRunningProcesses_v3", device_);
    if (drawing) computing->insert(drawing->begin(), drawing->end());
    // Inside a container this process may be listed under another number, so one is subtracted instead of
    // looking it up.
    s.other_processes = computing->size() - (computing->empty() ? 0 : 1);
  }
  return s;
}

std::optional<std::uint64_t> nvml::energy_mj() const {
  return library_->query_number<unsigned long long>("nvmlDeviceGetTotalEnergyConsumption", device_);
}

observer::observer(std::uint32_t iterations, std::optional<nvml> gpu, std::string why_not)
    : iterations_(iterations), gpu_(std::move(gpu)), unavailable_reason_(std::move(why_not)) {}

observer::energy_mark observer::take_mark(std::uint32_t done) const {
  return {done, host_cpu_now(), gpu_ ? gpu_->energy_mj() : std::nullopt};
}

// This is called twice with the number of timed iterations: after the last of them, and before the untimed
// ones.
void observer::on_iterations_done(std::uint32_t done) {
  if (done == 0 && gpu_) before_ = gpu_->state();
  if (done < iterations_) return;
  if (gpu_ && !after_) after_ = gpu_->state();
  (done > iterations_ ? end_ : begin_) = take_mark(done);
}

observation observer::result() const {
  observation seen{before_, after_, {}, {}, {}};
  if (!gpu_) seen.missing_reason = unavailable_reason_;
  if (!begin_ || !end_) {
    seen.missing_reason = "no iterations followed the timed ones";
    return seen;
  }
  const std::uint32_t count = end_->done - begin_->done;
  seen.host_cpu = (end_->host_cpu - begin_->host_cpu) / count;
  if (!gpu_) return seen;
  if (!begin_->energy_mj || !end_->energy_mj) {
    seen.missing_reason = "the GPU does not tell its energy";
  } else if (*end_->energy_mj <= *begin_->energy_mj) {
    seen.missing_reason = "the GPU's energy counter stood still";
  } else {
    seen.energy_uj = (*end_->energy_mj - *begin_->energy_mj) * 1000 / count;
  }
  return seen;
}

}  // namespace um
