// Twinned tensors, and room given back to the driver.
#include <algorithm>
#include <cstring>
#include <thread>

#include "backends/cuda/executor.hpp"
#include "backends/cuda/kernels/link_copy.hpp"
#include "um_allocators/managed_range.hpp"

namespace um {
namespace {

constexpr int nan_byte = 0xff;

}  // namespace

// A second half for every step of the lane to the host, in the same order.
void executor::run_keeper() {
  lane_work& mine = lanes_[static_cast<std::size_t>(lane::to_host)];
  try {
    check(cudaSetDevice(on_.device()));
    for (const std::uint32_t i : mine.steps) {
      const auto index = static_cast<std::int32_t>(i);
      for (std::int32_t now = mine.handed.load(std::memory_order_acquire); now < index;
           now = mine.handed.load(std::memory_order_acquire)) {
        mine.handed.wait(now, std::memory_order_acquire);
      }
      if (failed_) break;
      check(cudaEventSynchronize(work_[i].copied.get()));
      keeper_calls_ = true;
      give_up_room(plan_.steps[i]);
      if (work_[i].done) {
        check(cudaEventRecord(work_[i].done.get(), room_.get()));
        check(cudaStreamSynchronize(room_.get()));
        mine.issued.store(index, std::memory_order_release);
        mine.issued.notify_all();
      }
      keeper_calls_ = false;
    }
  } catch (...) {
    keeper_failure_ = std::current_exception();
    failed_ = true;
  }
  keeper_calls_ = false;
  if (failed_) let_go(lane::to_host);
}

// Whether a thread other than that of the lane to the host is in a call, or will be in no time.
bool executor::others_call() const {
  const auto to_host = static_cast<std::size_t>(lane::to_host);
  if (keeper_calls_) return true;
  const std::int32_t issued = lanes_[to_host].issued;
  for (std::size_t l = 0; l < lane_count; ++l) {
    const std::int32_t awaited = lanes_[l].awaited;
    if (l != to_host && (lanes_[l].calling || (awaited != no_step && awaited <= issued))) return true;
  }
  return false;
}

// Others may be in a call for long, as when a stream takes no more launches: they are waited for, not
// depended on.
void executor::evict_in_calls(managed_range what, const step& s, cudaStream_t on, moved_bytes& moved) {
  const byte_count each = s.call_bytes == 0 ? what.bytes : s.call_bytes;
  for (byte_count at = 0; at < what.bytes; at += each) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(s.gives_way_ns);
    while (others_call() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    const byte_count bytes = std::min(each, what.bytes - at);
    prefetch_to_host({what.data + at, bytes}, on);
    moved.evicted += bytes;
  }
}

void executor::give_up_room(const step& s) {
  if (!s.needed) return;
  const auto give_up = [&](const range& r) {
    discard_range({managed_.data() + r.offset, r.bytes}, room_.get());
    check(cudaStreamSynchronize(room_.get()));
  };
  for (const range& r : s.room) give_up(r);
  if (!std::holds_alternative<discard>(s.what) || !is_managed(s.home)) return;
  for (const movement& m : s.moves) give_up(m.device);
}

// To the host: the copies; the keeper discards behind them. To the device: room first.
void executor::move_twin(const step& s, cudaStream_t on, moved_bytes& moved) {
  const kernels::launch_site site{on, on_.compute().multiprocessors};
  const bool in = std::holds_alternative<prefetch>(s.what);
  if (in) {
    // What lies there is of no value: a plain prefetch maps it, or populates it, with no copy.
    for (const range& r : s.room) {
      prefetch_to_device({managed_.data() + r.offset, r.bytes}, on_.device(), filling_.get());
    }
    if (!s.room.empty()) check(cudaStreamSynchronize(filling_.get()));
  }
  for (const movement& m : s.moves) {
    std::byte* const here = managed_.data() + m.device.offset;
    std::byte* const home = pinned_.data() + m.pinned_offset;
    if (std::holds_alternative<discard>(s.what)) break;
    kernels::copy_over_link(site, in ? home : here, in ? here : home, m.device.bytes, s.pace_bytes_per_s);
    (in ? moved.to_device : moved.to_host) += m.device.bytes;
  }
  if (poisons_) poison(s, on);
}

// What is given up is overwritten, so that whoever reads it all the same computes with NaNs. Not what the
// driver evicts, which stays where it was read, nor staged tensors, which others may still read while they
// are copied home.
void executor::poison(const step& s, cudaStream_t on) {
  if (!s.needed || s.where != lane::to_host || !is_managed(s.home)) return;
  if (std::holds_alternative<evict>(s.what) && s.home == residence::managed) return;
  for (const movement& m : s.moves) {
    check(cudaMemsetAsync(managed_.data() + m.device.offset, nan_byte, m.device.bytes, on));
  }
  for (const range& r : s.room) check(cudaMemsetAsync(managed_.data() + r.offset, nan_byte, r.bytes, on));
}

// What has not been written yet: of staged tensors, a copy home that never was.
void executor::poison_arenas() {
  if (device_.bytes() > 0) check(cudaMemset(device_.data(), nan_byte, device_.bytes()));
  if (pinned_.bytes() > 0) std::memset(pinned_.data(), nan_byte, pinned_.bytes());
}

}  // namespace um
