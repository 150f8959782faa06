#include "tests/trace/fake_driver.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <string_view>

namespace {

using event = std::array<std::uint8_t, 64>;

// The places that the driver and the reader write to (UvmToolsEventControlData).
struct control {
  std::atomic<std::uint32_t> get_ahead, get_behind, put_ahead, put_behind;
};

std::mutex guard;
std::deque<event> waiting;
int uvm_file = -1, queue_file = -1;
event* queue = nullptr;
std::uint64_t entries = 0;
control* places = nullptr;
std::atomic<std::uint64_t> enabled = 0;  // a bit for each type of event

void put(event& into, std::size_t offset, auto value) {
  std::memcpy(into.data() + offset, &value, sizeof(value));
}
template <class Number>
Number taken(const void* from, std::size_t offset) {
  Number value{};
  std::memcpy(&value, static_cast<const char*>(from) + offset, sizeof(value));
  return value;
}
template <class Function>
Function* in_libc(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::uint64_t raw_time() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void add(const event& e) {
  const std::lock_guard lock(guard);
  if ((enabled >> e[0] & 1) != 0) waiting.push_back(e);
}

void fill_queue() {
  const std::lock_guard lock(guard);
  for (; enabled != 0 && !waiting.empty(); waiting.pop_front()) {
    const std::uint32_t at = places->put_behind;
    queue[at] = waiting.front();
    places->put_ahead = places->put_behind = static_cast<std::uint32_t>((at + 1) % entries);
  }
}

int answer(void* parameters, std::size_t offset) {
  std::memset(static_cast<char*>(parameters) + offset, 0, 4);
  return 0;
}

int tools_call(int file, unsigned long command, void* parameters) {
  if (command == 56) {  // a tracker: with a queue for events, without for counters
    const auto wanted = taken<std::uint64_t>(parameters, 8);
    if (wanted == 0) return 0;
    entries = wanted;
    queue = reinterpret_cast<event*>(taken<std::uint64_t>(parameters, 0));
    places = reinterpret_cast<control*>(taken<std::uint64_t>(parameters, 16));
    queue_file = file;
    return 0;
  }
  if (file == queue_file && command == 58) enabled |= taken<std::uint64_t>(parameters, 0);
  if (file == queue_file && command == 59) enabled &= ~taken<std::uint64_t>(parameters, 0);
  return command == 60 || file == queue_file ? answer(parameters, 8) : -1;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  const bool is_tools = std::string_view(path) == "/dev/nvidia-uvm-tools";
  if (is_tools && uvm_file < 0) return -1;
  return in_libc<int(const char*, int, ...)>("open")(is_tools ? "/dev/null" : path, flags, mode);
}

ssize_t readlinkat(int folder, const char* name, char* into, std::size_t size) {
  constexpr std::string_view driver = "/dev/nvidia-uvm";
  if (uvm_file < 0 || std::atoi(name) != uvm_file || driver.size() > size)
    return in_libc<ssize_t(int, const char*, char*, std::size_t)>("readlinkat")(folder, name, into, size);
  std::memcpy(into, driver.data(), driver.size());
  return static_cast<ssize_t>(driver.size());
}

int ioctl(int file, unsigned long command, ...) {
  va_list more;
  va_start(more, command);
  void* const parameters = va_arg(more, void*);
  va_end(more);
  if (uvm_file < 0) return -1;
  if (file != uvm_file) return tools_call(file, command, parameters);
  if (command != 67) return -1;
  fill_queue();
  return answer(parameters, 0);
}

void fake_driver_begin() {
  uvm_file = open("/dev/null", O_RDONLY);
}
void fake_migrate(std::uint32_t count, std::uint64_t address, std::uint64_t bytes_each) {
  for (std::uint32_t i = 0; i < count; ++i) {
    event e{};
    e[0] = 2;  // migration
    e[1] = 2;  // since a GPU faulted
    e[3] = 1;  // from the CPU to the first GPU
    put(e, 8, address + i * bytes_each);
    put(e, 16, bytes_each);
    put(e, 24, raw_time());
    add(e);
  }
}
void fake_fault(std::uint32_t batch, std::uint32_t granules, std::uint64_t address, bool replayed) {
  for (std::uint32_t i = 0; i < granules; ++i) {
    event e{};
    e[0] = 3;  // fault of a GPU
    e[2] = 1;  // it reads
    e[3] = 1;
    put(e, 8, address + std::uint64_t{i} * 65536);
    put(e, 16, raw_time());
    put(e, 32, batch);
    add(e);
  }
  if (!replayed) return;
  event e{};
  e[0] = 4;  // replay
  e[1] = 1;
  put(e, 4, batch);
  put(e, 8, raw_time());
  add(e);
}
bool fake_events_enabled() {
  return enabled != 0;
}
std::uint32_t fake_events_waiting() {
  const std::lock_guard lock(guard);
  return static_cast<std::uint32_t>(waiting.size());
}
}
