#include "trace/driver_events.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace um::tracing {
namespace {

// UvmEventType
enum event_type : std::uint8_t {
  cpu_faulted = 1,
  migrated = 2,
  gpu_faulted = 3,
  replayed = 4,
  thrashing_seen = 10,
  throttling_began = 11,
  mapped_remotely = 13
};
constexpr std::uint64_t wanted_events = 1 << cpu_faulted | 1 << migrated | 1 << gpu_faulted | 1 << replayed |
                                        1 << thrashing_seen | 1 << throttling_began | 1 << mapped_remotely;
constexpr std::uint8_t the_cpu = 0;  // of processors; GPUs follow

constexpr std::size_t control_bytes = 4096;
constexpr std::uint64_t granules_of_block = std::uint64_t{1} << (block_shift - granule_shift);

// nullptr where there are none.
void* pages(std::size_t bytes) {
  void* const made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  madvise(made, bytes, MADV_DONTFORK);  // a forked child's copy would not be the driver's
  return made;
}

template <class Number>
Number number_at(driver_event event, std::size_t offset) {
  Number value{};
  std::memcpy(&value, event.data() + offset, sizeof(value));
  return value;
}
std::uint64_t word(driver_event event, std::size_t offset) {
  return number_at<std::uint64_t>(event, offset);
}
std::uint8_t byte_at(driver_event event, std::size_t offset) {
  return number_at<std::uint8_t>(event, offset);
}

std::uint64_t on_records_clock(std::uint64_t time, nanoseconds ahead) {
  return time == 0 ? 0 : time + static_cast<std::uint64_t>(ahead);
}

unified_memory_record record_of(counter_kind what, std::uint64_t address, std::uint64_t at) {
  return {.counter = what, .start = at, .end = at, .address = address};
}

// Begins on the CPU's clock. Only the GPU's clock tells how long the copy took.
unified_memory_record migration_of(driver_event e, nanoseconds ahead, std::uint32_t device) {
  const bool from_cpu = byte_at(e, 2) == the_cpu, to_cpu = byte_at(e, 3) == the_cpu;
  const auto what = from_cpu ? counter_kind::bytes_to_device
                    : to_cpu ? counter_kind::bytes_to_host
                             : counter_kind::bytes_between_devices;
  unified_memory_record r = record_of(what, word(e, 8), on_records_clock(word(e, 24), ahead));
  r.value = word(e, 16);
  r.end = r.start + word(e, 56) - word(e, 48);
  r.source = from_cpu ? host : device;
  r.destination = to_cpu ? host : device;
  r.flags = byte_at(e, 1);  // causes have the same numbers
  return r;
}

unified_memory_record cpu_fault_of(driver_event e, nanoseconds ahead) {
  unified_memory_record r =
      record_of(counter_kind::cpu_page_fault, word(e, 8), on_records_clock(word(e, 16), ahead));
  r.value = word(e, 32);
  r.flags = byte_at(e, 1);
  return r;
}

std::uint32_t processor(std::uint8_t number, std::uint32_t device) {
  return number == the_cpu ? host : device;
}

unified_memory_record contention_of(driver_event e, nanoseconds ahead, std::uint32_t device) {
  switch (byte_at(e, 0)) {
    case thrashing_seen: {
      auto r = record_of(counter_kind::thrashing, word(e, 16), on_records_clock(word(e, 32), ahead));
      r.value = word(e, 24);
      return r;
    }
    case throttling_began: {
      auto r = record_of(counter_kind::throttling, word(e, 8), on_records_clock(word(e, 16), ahead));
      r.source = processor(byte_at(e, 1), device);
      return r;
    }
    default: {
      auto r = record_of(counter_kind::remote_map, word(e, 8), on_records_clock(word(e, 24), ahead));
      r.value = word(e, 16);
      r.source = processor(byte_at(e, 1), device);
      r.destination = processor(byte_at(e, 2), device);
      r.flags = byte_at(e, 3);
      return r;
    }
  }
}

}  // namespace

void gpu_clock::see(std::uint64_t gpu, std::uint64_t cpu) {
  if (gpu == 0) return;
  if (cpu > since_ + a_while) {
    least_before_ = std::exchange(least_, none);
    since_ = cpu;
  }
  least_ = std::min(least_, cpu - gpu);
}

std::uint64_t gpu_clock::on_cpu(std::uint64_t gpu, std::uint64_t cpu) const {
  const std::uint64_t least = std::min(least_before_, least_);
  return gpu == 0 || least == none ? cpu : gpu + least;
}

void event_translator::add_fault(driver_event e, nanoseconds ahead, std::uint32_t device) {
  const std::uint64_t address = word(e, 8), cpu_time = word(e, 16), gpu_time = word(e, 24);
  clock_.see(gpu_time, cpu_time);
  const std::uint64_t begin = on_records_clock(clock_.on_cpu(gpu_time, cpu_time), ahead);
  auto& batch = open_[number_at<std::uint32_t>(e, 32)];
  const auto [known, is_new] = batch.try_emplace({address >> block_shift, byte_at(e, 2)});
  auto& [record, granules] = known->second;
  granules |= std::uint32_t{1} << ((address >> granule_shift) % granules_of_block);
  if (is_new) {
    record = record_of(counter_kind::gpu_page_fault, address, begin);
    record.source = device;
    record.flags = byte_at(e, 2);
  }
  record.start = std::min(record.start, begin);
}

void event_translator::add_replay(driver_event e, nanoseconds ahead, const take_record& to) {
  const auto batch = open_.find(number_at<std::uint32_t>(e, 4));
  if (batch == open_.end()) return;
  for (auto& [block, faults] : batch->second) {
    faults.record.value = static_cast<std::uint64_t>(std::popcount(faults.granules));
    faults.record.end = on_records_clock(clock_.on_cpu(word(e, 16), word(e, 8)), ahead);
    to(faults.record);
  }
  open_.erase(batch);
}

void event_translator::add(driver_event e, nanoseconds ahead, std::uint32_t device, const take_record& to) {
  switch (byte_at(e, 0)) {
    case migrated:
      if (byte_at(e, 2) != byte_at(e, 3)) to(migration_of(e, ahead, device));  // not from CPU to CPU
      return;
    case cpu_faulted:
      return to(cpu_fault_of(e, ahead));
    case gpu_faulted:
      return add_fault(e, ahead, device);
    case replayed:
      return add_replay(e, ahead, to);
    case thrashing_seen:
    case throttling_began:
    case mapped_remotely:
      return to(contention_of(e, ahead, device));
    default:
      return;
  }
}

event_ring::event_ring(std::uint32_t entries)
    : entries_(entries),
      queue_(static_cast<std::byte*>(pages(std::size_t{entries} * event_bytes))),
      control_(static_cast<control*>(pages(control_bytes))) {}

event_ring::~event_ring() {
  if (queue_ != nullptr) munmap(queue_, std::size_t{entries_} * event_bytes);
  if (control_ != nullptr) munmap(control_, control_bytes);
}

tracked_memory event_ring::memory() const {
  if (queue_ == nullptr || control_ == nullptr) return {};
  return {.queue = queue_, .entries = entries_, .control = control_};
}

std::size_t event_ring::read(const std::function<void(driver_event)>& take) {
  const std::uint32_t until = control_->put_behind.load(std::memory_order_acquire) % entries_;
  std::uint32_t at = control_->get_ahead.load(std::memory_order_relaxed) % entries_;
  std::size_t count = 0;
  for (; at != until; at = (at + 1) % entries_, ++count) {
    take(driver_event(queue_ + std::size_t{at} * event_bytes, event_bytes));
  }
  control_->get_ahead.store(at, std::memory_order_release);
  control_->get_behind.store(at, std::memory_order_release);
  return count;
}

std::uint64_t event_ring::lost() const {
  std::uint64_t all = 0;
  for (const auto& of_type : control_->lost) all += of_type.load(std::memory_order_relaxed);
  return all;
}

driver_events::~driver_events() {
  if (tracker_.file >= 0) close(tracker_.file);
}

bool driver_events::begin(std::uint32_t device) {
  constexpr std::uint32_t entries = 1 << 20;  // some seconds of heavy faulting
  if (active_) return true;
  device_ = device;
  translate_ = {};
  if (tracker_.file >= 0) return active_ = switch_events(tracker_, true, wanted_events);
  if (!ring_) ring_ = std::make_unique<event_ring>(entries);
  if (ring_->memory().entries == 0) return false;
  tracker_ = open_tracker(ring_->memory(), wanted_events);
  return active_ = tracker_.file >= 0;
}

void driver_events::pause() {
  if (active_) static_cast<void>(switch_events(tracker_, false, wanted_events));
  active_ = false;
}

void driver_events::flush() const {
  if (active_) flush_events(tracker_);
}

std::uint64_t driver_events::take_lost() {
  const std::uint64_t all = ring_ ? ring_->lost() : 0;
  return all - std::exchange(lost_before_, all);
}

void driver_events::read(nanoseconds ahead, const take_record& to) {
  if (!ring_) return;
  ring_->read([&](driver_event e) { translate_.add(e, ahead, device_, to); });
}

}  // namespace um::tracing
