#include "trace/driver_events.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "trace/event_sums.hpp"

namespace um::tracing {
namespace {

constexpr std::uint64_t bit_of(uvm::event_type type) {
  return std::uint64_t{1} << static_cast<unsigned>(type);
}
constexpr std::uint64_t migrations = bit_of(uvm::event_type::migration);
constexpr std::uint64_t all_events =
    migrations | bit_of(uvm::event_type::cpu_fault) | bit_of(uvm::event_type::gpu_fault) |
    bit_of(uvm::event_type::replay) | bit_of(uvm::event_type::thrashing) |
    bit_of(uvm::event_type::throttling) | bit_of(uvm::event_type::remote_map);

constexpr std::size_t control_bytes = 4096;
constexpr std::uint64_t granules_of_block = std::uint64_t{1} << (block_shift - granule_shift);

// Returns nullptr if there is no memory.
void* allocate_pages(std::size_t bytes) {
  void* const made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  madvise(made, bytes, MADV_DONTFORK);  // the driver would not write to a forked child's copy
  return made;
}

template <class Event>
Event event_as(driver_event bytes) {
  static_assert(sizeof(Event) <= uvm::event_bytes);
  Event e;
  std::memcpy(&e, bytes.data(), sizeof(e));
  return e;
}

std::uint64_t to_record_time(std::uint64_t time, nanoseconds clock_offset) {
  return time == 0 ? 0 : time + static_cast<std::uint64_t>(clock_offset);
}

unified_memory_record record_of(counter_kind counter, std::uint64_t address, std::uint64_t at) {
  return {.counter = counter, .start = at, .end = at, .address = address};
}

std::uint32_t host_or_device(std::uint8_t number, std::uint32_t device) {
  return number == uvm::cpu_processor ? host : device;
}

// The record begins at the time of the CPU's clock. Its duration comes from the GPU's clock.
unified_memory_record record_of(const uvm::migration& e, nanoseconds clock_offset, std::uint32_t device) {
  const auto counter = e.source == uvm::cpu_processor        ? counter_kind::bytes_to_device
                       : e.destination == uvm::cpu_processor ? counter_kind::bytes_to_host
                                                             : counter_kind::bytes_between_devices;
  unified_memory_record r = record_of(counter, e.address, to_record_time(e.begin, clock_offset));
  r.value = e.bytes;
  r.end = r.start + e.end_on_gpu - e.begin_on_gpu;
  r.source = host_or_device(e.source, device);
  r.destination = host_or_device(e.destination, device);
  r.flags = e.cause;  // the driver's causes have CUPTI's numbers
  return r;
}

unified_memory_record record_of(const uvm::cpu_fault& e, nanoseconds clock_offset) {
  auto r = record_of(counter_kind::cpu_page_fault, e.address, to_record_time(e.time, clock_offset));
  r.value = e.program_counter;
  r.flags = e.access;
  return r;
}

unified_memory_record record_of(const uvm::thrashing& e, nanoseconds clock_offset) {
  auto r = record_of(counter_kind::thrashing, e.address, to_record_time(e.time, clock_offset));
  r.value = e.bytes;
  return r;
}

unified_memory_record record_of(const uvm::throttling& e, nanoseconds clock_offset, std::uint32_t device) {
  auto r = record_of(counter_kind::throttling, e.address, to_record_time(e.time, clock_offset));
  r.source = host_or_device(e.processor, device);
  return r;
}

unified_memory_record record_of(const uvm::remote_map& e, nanoseconds clock_offset, std::uint32_t device) {
  auto r = record_of(counter_kind::remote_map, e.address, to_record_time(e.time, clock_offset));
  r.value = e.bytes;
  r.source = host_or_device(e.source, device);
  r.destination = host_or_device(e.destination, device);
  r.flags = e.cause;
  return r;
}

}  // namespace

void gpu_time_converter::add_sample(std::uint64_t gpu, std::uint64_t cpu) {
  if (gpu == 0) return;
  if (cpu > since_ + sample_window) {
    min_offset_before_ = cpu > since_ + 2 * sample_window
                             ? none
                             : min_offset_;  // after a pause the old offset is dropped, since clocks drift
    min_offset_ = none;
    since_ = cpu;
  }
  min_offset_ = std::min(min_offset_, cpu - gpu);
}

std::uint64_t gpu_time_converter::to_cpu_time(std::uint64_t gpu_time, std::uint64_t fallback) const {
  const std::uint64_t least = std::min(min_offset_before_, min_offset_);
  return gpu_time == 0 || least == none ? fallback : gpu_time + least;
}

void event_translator::add_fault(const uvm::gpu_fault& e, nanoseconds clock_offset, std::uint32_t device) {
  clock_.add_sample(e.time_on_gpu, e.time);
  const std::uint64_t begin = to_record_time(clock_.to_cpu_time(e.time_on_gpu, e.time), clock_offset);
  const auto [known, is_new] = open_[e.batch].try_emplace({e.address >> block_shift, e.access});
  auto& [record, granules] = known->second;
  granules |= std::uint32_t{1} << ((e.address >> granule_shift) % granules_of_block);
  if (is_new) {
    record = record_of(counter_kind::gpu_page_fault, e.address, begin);
    record.source = device;
    record.flags = e.access;
  }
  record.start = std::min(record.start, begin);
  record.end = std::max(record.end, begin);
}

void event_translator::emit_records(const batch& faults, std::uint64_t end, const take_record& to) {
  for (const auto& [block, of] : faults) {
    unified_memory_record record = of.record;
    record.value = static_cast<std::uint64_t>(std::popcount(of.granules));
    record.end = end;
    to(record);
  }
}

void event_translator::add_replay(const uvm::replay& e, nanoseconds clock_offset, const take_record& to) {
  const auto ended = open_.find(e.batch);
  if (ended == open_.end()) return;
  emit_records(ended->second, to_record_time(clock_.to_cpu_time(e.time_on_gpu, e.time), clock_offset), to);
  open_.erase(ended);
}

void event_translator::end_open_batches(const take_record& to) {
  for (const auto& [number, faults] : open_) {
    std::uint64_t last = 0;
    for (const auto& [block, of] : faults) last = std::max(last, of.record.end);
    emit_records(faults, last, to);
  }
  open_.clear();
}

void event_translator::add(driver_event bytes, nanoseconds clock_offset, std::uint32_t device,
                           const take_record& to) {
  using enum uvm::event_type;
  switch (static_cast<uvm::event_type>(bytes[0])) {
    case migration: {
      const auto e = event_as<uvm::migration>(bytes);
      if (e.source != e.destination)
        to(record_of(e, clock_offset, device));  // leaves out migrations between NUMA nodes of the CPU
      return;
    }
    case cpu_fault:
      return to(record_of(event_as<uvm::cpu_fault>(bytes), clock_offset));
    case gpu_fault:
      return add_fault(event_as<uvm::gpu_fault>(bytes), clock_offset, device);
    case replay:
      return add_replay(event_as<uvm::replay>(bytes), clock_offset, to);
    case thrashing:
      return to(record_of(event_as<uvm::thrashing>(bytes), clock_offset));
    case throttling:
      return to(record_of(event_as<uvm::throttling>(bytes), clock_offset, device));
    case remote_map:
      return to(record_of(event_as<uvm::remote_map>(bytes), clock_offset, device));
  }
}

event_ring::event_ring(std::uint32_t entries)
    : entries_(entries),
      queue_(static_cast<std::byte*>(allocate_pages(std::size_t{entries} * uvm::event_bytes))),
      control_(static_cast<control*>(allocate_pages(control_bytes))) {}

event_ring::~event_ring() {
  if (queue_ != nullptr) munmap(queue_, std::size_t{entries_} * uvm::event_bytes);
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
    take(driver_event(queue_ + std::size_t{at} * uvm::event_bytes, uvm::event_bytes));
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

bool driver_events::begin(std::uint32_t device, bool with_faults) {
  constexpr std::uint32_t entries = 1 << 20;  // enough for some seconds of many faults
  if (active_) return true;
  device_ = device;
  const std::uint64_t event_mask = with_faults ? all_events : migrations;
  if (tracker_.file >= 0) return active_ = switch_events(tracker_, true, event_mask);
  if (!ring_) ring_ = std::make_unique<event_ring>(entries);
  if (ring_->memory().entries == 0) return false;
  tracker_ = open_tracker(ring_->memory(), event_mask);
  return active_ = tracker_.file >= 0;
}

void driver_events::pause() {
  if (active_) static_cast<void>(switch_events(tracker_, false, all_events));
  active_ = false;
}

std::uint64_t driver_events::take_lost_count() {
  const std::uint64_t all = ring_ ? ring_->lost() : 0;
  return all - std::exchange(lost_before_, all);
}

void driver_events::read(nanoseconds clock_offset, const take_record& to) {
  if (!ring_) return;
  ring_->read([&](driver_event e) { translate_.add(e, clock_offset, device_, to); });
  if (!active_) translate_.end_open_batches(to);
}

}  // namespace um::tracing
