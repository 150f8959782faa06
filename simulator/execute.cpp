#include "simulator/execute.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace um {
namespace {

constexpr std::int64_t full_speed = 1000;

struct active_step {
  std::int32_t index = no_step;
  nanoseconds begin = 0;
  nanoseconds waiting = 0;    // time to wait for another lane's call before anything moves
  nanoseconds remaining = 0;  // time left after the wait, at full speed
  std::uint64_t link_bytes_per_s = 0;
  bool is_driver_prefetch = false;
  std::int64_t fault_share = 0;  // share of its time that faults take, in thousandths
  nanoseconds eviction_call_time = 0;
};

struct pending_release {
  std::int32_t index = no_step;
  byte_count bytes = 0;
};

// Speed, in thousandths of its own, that a transfer keeps while one in the opposite direction runs.
std::int64_t speed_beside_opposite(std::uint64_t own, std::uint64_t other, const machine& on) {
  const std::uint64_t both = on.link_both_bytes_per_s;
  if (both == 0) {
    throw std::invalid_argument("machine " + on.name +
                                " has no link_both_bytes_per_s, which this plan needs: add it to the "
                                "machine's file");
  }
  const std::uint64_t half = both / 2;
  const std::uint64_t share = std::max(half, both - std::min(other, both));
  if (share >= own) return full_speed;
  const auto speed = static_cast<std::int64_t>(share / std::max<std::uint64_t>(own / full_speed, 1));
  return std::clamp<std::int64_t>(speed, 1, full_speed);
}

bool is_driver_call(const step& s) {
  if (!s.is_needed) return false;
  const bool discards = std::holds_alternative<discard>(s.command);
  const bool moves = std::holds_alternative<prefetch>(s.command) || std::holds_alternative<evict>(s.command);
  return s.home == residence::managed ? discards || moves : s.home == residence::twinned && discards;
}

// Device memory in use over an iteration. Plans give it step by step, but lanes run ahead of one another. So
// each step contributes its difference: growth when it starts, a release when it and all computes before it
// have ended, since a step may release memory long before the last reader ends.
class memory_in_use {
 public:
  memory_in_use(const simulation_input& run, const managed_memory& memory)
      : run_(run),
        memory_(memory),
        bytes_(bytes_after(static_cast<std::int32_t>(run.plan.steps.size()) - 1)) {
    sample(0);
  }

  void start(std::int32_t index, std::int32_t first_unfinished_compute, nanoseconds now) {
    const byte_count was = bytes_before(index), is = bytes_after(index);
    if (is > was) bytes_ += is - was;
    release_until(first_unfinished_compute);
    sample(now);
  }
  // `first_unfinished_compute`: the first one in plan order.
  void finish(std::int32_t index, std::int32_t first_unfinished_compute, nanoseconds now) {
    const byte_count was = bytes_before(index), is = bytes_after(index);
    if (is < was) pending_releases_.push_back({index, was - is});
    release_until(first_unfinished_compute);
    sample(now);
  }
  std::vector<memory_sample> take() { return std::move(samples_); }

 private:
  byte_count bytes_after(std::int32_t index) const {
    return index < 0 ? 0 : run_.plan.steps[static_cast<std::size_t>(index)].resident_bytes;
  }
  byte_count bytes_before(std::int32_t index) const {
    return bytes_after(index == 0 ? static_cast<std::int32_t>(run_.plan.steps.size()) - 1 : index - 1);
  }

  void release_until(std::int32_t first_unfinished_compute) {
    const auto gone =
        std::partition(pending_releases_.begin(), pending_releases_.end(),
                       [&](const pending_release& s) { return s.index > first_unfinished_compute; });
    for (auto s = gone; s != pending_releases_.end(); ++s) bytes_ -= std::min(bytes_, s->bytes);
    pending_releases_.erase(gone, pending_releases_.end());
  }

  void sample(nanoseconds now) {
    const bool is_driver_prefetch = run_.plan.evicted_by == evictor::driver && memory_.block_count() > 0;
    const byte_count bytes =
        is_driver_prefetch ? run_.plan.device_arena_bytes + memory_.held_blocks() * managed_block : bytes_;
    if (!samples_.empty() && samples_.back().bytes == bytes) return;
    if (!samples_.empty() && samples_.back().time == now) {
      samples_.back().bytes = bytes;
    } else {
      samples_.push_back({now, bytes});
    }
  }

  const simulation_input& run_;
  const managed_memory& memory_;
  byte_count bytes_ = 0;
  std::vector<pending_release>
      pending_releases_;  // releases of steps that have ended while earlier computes may still use the memory
  std::vector<memory_sample> samples_;
};

class iteration {
 public:
  iteration(const simulation_input& run, managed_memory& memory, bool timeline, const step_observer& on_start)
      : run_(run), memory_(memory), on_start_(on_start), ended_(run.plan.steps.size(), false) {
    for (std::size_t i = 0; i < run.plan.steps.size(); ++i) {
      queues_[lane_of(i)].push_back(static_cast<std::int32_t>(i));
    }
    trace_.counts = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (timeline) in_use_.emplace(run, memory);
  }

  trace run() {
    while (true) {
      while (start_next()) {
      }
      if (!advance()) break;
    }
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (next_[l] < queues_[l].size()) throw_deadlock(queues_[l][next_[l]]);
    }
    trace_.duration = now_;
    if (in_use_) trace_.memory_samples = in_use_->take();
    return std::move(trace_);
  }

 private:
  const step& at(std::int32_t index) const { return run_.plan.steps[static_cast<std::size_t>(index)]; }
  std::size_t lane_of(std::size_t index) const {
    return static_cast<std::size_t>(run_.plan.steps[index].in_lane);
  }

  const active_step& in(lane l) const { return active_[static_cast<std::size_t>(l)]; }

  bool is_ready(std::int32_t index) const {
    return std::ranges::all_of(at(index).waits_for, [&](std::int32_t earlier) {
      return earlier == no_step || ended_.at(static_cast<std::size_t>(earlier));
    });
  }

  // Whether a step must wait for a call: a discard and any other driver call exclude each other, in all
  // lanes.
  bool must_wait_for_call(const step& next) const {
    if (!is_driver_call(next)) return false;
    return std::ranges::any_of(active_, [&](const active_step& a) {
      if (a.index == no_step || !is_driver_call(at(a.index))) return false;
      return std::holds_alternative<discard>(next.command) ||
             std::holds_alternative<discard>(at(a.index).command);
    });
  }

  // A prefetch to the device waits for the eviction call in progress, of which half is left on average.
  nanoseconds wait_time_for_eviction_call(const step& next) const {
    return next.in_lane == lane::to_device && is_driver_call(next) ? in(lane::to_host).eviction_call_time / 2
                                                                   : 0;
  }

  // Starts the first step in plan order that can start now. Returns false if there is none.
  bool start_next() {
    std::int32_t first = no_step;
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (active_[l].index != no_step || next_[l] == queues_[l].size()) continue;
      const std::int32_t head = queues_[l][next_[l]];
      if ((first == no_step || head < first) && is_ready(head) && !must_wait_for_call(at(head))) first = head;
    }
    if (first == no_step) return false;
    start(first);
    return true;
  }

  void start(std::int32_t index) {
    const std::size_t l = lane_of(static_cast<std::size_t>(index));
    ++next_[l];
    if (on_start_) on_start_(at(index), memory_);
    const step_cost cost = execute_step(run_, at(index), memory_, trace_.counts);
    const std::int64_t fault_share =
        cost.fault_time == 0 ? 0 : cost.fault_time * full_speed / cost.time_alone;
    const nanoseconds waiting = wait_time_for_eviction_call(at(index));
    active_[l] = {index,
                  now_,
                  waiting,
                  cost.time_alone,
                  cost.link_bytes_per_s,
                  cost.is_driver_prefetch,
                  fault_share,
                  cost.eviction_call_time};
    if (in_use_) in_use_->start(index, first_unfinished_compute(), now_);
    if (waiting + cost.time_alone == 0) finish(l);
  }

  void finish(std::size_t l) {
    const active_step done = active_[l];
    active_[l] = {};
    ended_[static_cast<std::size_t>(done.index)] = true;
    if (!in_use_) return;
    if (now_ > done.begin) {
      trace_.spans.push_back(
          {static_cast<std::uint32_t>(done.index), static_cast<lane>(l), done.begin, now_});
    }
    in_use_->finish(done.index, first_unfinished_compute(), now_);
  }

  // Time left in the current phase: waiting or moving.
  static nanoseconds& remaining_of(active_step& s) { return s.waiting > 0 ? s.waiting : s.remaining; }
  static std::uint64_t rate_of(const active_step& s) { return s.waiting > 0 ? 0 : s.link_bytes_per_s; }

  std::int64_t speed_of(std::size_t l) const {
    if (active_[l].waiting > 0) return full_speed;
    if (static_cast<lane>(l) == lane::compute) return fault_speed_beside_eviction();
    const std::int64_t speed = speed_on_link(l);
    return static_cast<lane>(l) == lane::to_host
               ? std::max<std::int64_t>(1, eviction_speed_beside_faults() * speed / full_speed)
               : speed;
  }

  // Share (in thousandths) of the kernel's time in which its faults and a prefetch to the host slow each
  // other down.
  std::int64_t fault_share_during_eviction() const {
    return in(lane::to_host).is_driver_prefetch ? in(lane::compute).fault_share : 0;
  }
  std::int64_t fault_speed_beside_eviction() const {
    const auto kept = static_cast<std::int64_t>(run_.on.uvm.faults_beside_prefetch_percent);
    return full_speed * full_speed / (full_speed + fault_share_during_eviction() * (100 - kept) / kept);
  }
  std::int64_t eviction_speed_beside_faults() const {
    const auto kept = static_cast<std::int64_t>(run_.on.uvm.prefetch_to_host_beside_faults_percent);
    return full_speed - fault_share_during_eviction() * (100 - kept) / 100;
  }

  std::int64_t speed_on_link(std::size_t l) const {
    const bool to_device = static_cast<lane>(l) == lane::to_device;
    const active_step& other = in(to_device ? lane::to_host : lane::to_device);
    const std::uint64_t own = active_[l].link_bytes_per_s, others = rate_of(other);
    if (own == 0 || others == 0) return full_speed;
    const std::int64_t speed = speed_beside_opposite(own, others, run_.on);
    if (to_device || !active_[l].is_driver_prefetch || !other.is_driver_prefetch) return speed;
    const auto kept = static_cast<std::int64_t>(run_.on.uvm.prefetch_to_host_beside_percent);
    return std::clamp<std::int64_t>(kept * full_speed / 100, 1, speed);
  }

  void end_phase(std::size_t l) {
    active_step& s = active_[l];
    const bool goes_on = s.waiting > 0 && s.remaining > 0;
    s.waiting = 0;
    if (!goes_on) finish(l);
  }

  // Advances to the end of the next phase of a step. Returns false if no step is running.
  bool advance() {
    constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
    std::array<std::int64_t, lane_count> speed{};
    std::array<nanoseconds, lane_count> wait{};
    for (std::size_t l = 0; l < lane_count; ++l) {
      speed[l] = speed_of(l);
      if (active_[l].index == no_step) {
        wait[l] = never;
      } else {
        wait[l] = (remaining_of(active_[l]) * full_speed + speed[l] - 1) / speed[l];
      }
    }
    const nanoseconds passed = *std::ranges::min_element(wait);
    if (passed == never) return false;
    now_ += passed;
    for (std::size_t l = 0; l < lane_count; ++l) {
      if (wait[l] == passed) {
        end_phase(l);
      } else if (active_[l].index != no_step) {
        remaining_of(active_[l]) -= passed * speed[l] / full_speed;
      }
    }
    return true;
  }

  [[noreturn]] void throw_deadlock(std::int32_t index) const {
    throw std::invalid_argument("step " + std::to_string(index) + " (" +
                                to_text(run_.network, at(index).command) +
                                ") waits for a step that never ends: lower the plan again");
  }

  std::int32_t first_unfinished_compute() const {
    const auto l = static_cast<std::size_t>(lane::compute);
    if (active_[l].index != no_step) return active_[l].index;
    return next_[l] < queues_[l].size() ? queues_[l][next_[l]] : std::numeric_limits<std::int32_t>::max();
  }

  const simulation_input& run_;
  managed_memory& memory_;
  const step_observer& on_start_;
  trace trace_;
  std::optional<memory_in_use> in_use_;  // only if a timeline is requested
  nanoseconds now_ = 0;
  std::vector<bool> ended_;
  std::array<std::vector<std::int32_t>, lane_count> queues_;
  std::array<std::size_t, lane_count> next_{};
  std::array<active_step, lane_count> active_;
};

std::uint64_t capacity_in_blocks(const simulation_input& run) {
  const execution_plan& plan = run.plan;
  const byte_count limit =
      plan.evicted_by == evictor::driver ? std::min(plan.budget, run.on.device_bytes) : run.on.device_bytes;
  const byte_count left = limit > plan.device_arena_bytes ? limit - plan.device_arena_bytes : 0;
  if (left < managed_block && plan.managed_arena_bytes > 0) {
    throw infeasible("the device arena of " + to_text(plan.device_arena_bytes) + " leaves " + to_text(left) +
                     " of " + to_text(limit) +
                     " for managed memory, less than one block of 2 MiB: raise the budget");
  }
  return left / managed_block;
}

}  // namespace

managed_memory managed_at_start(const simulation_input& run) {
  managed_memory memory(run.plan.managed_arena_bytes, capacity_in_blocks(run), run.on);
  for (std::size_t i = 0; i < run.network.tensors.size(); ++i) {
    const tensor& t = run.network.tensors[i];
    const address at = run.plan.at_start.at(i);
    if (at.where == space::managed && persists(t.role)) memory.place_on_host({at.offset, bytes_of(t)});
  }
  return memory;
}

trace run_iteration(const simulation_input& run, managed_memory& memory, bool timeline,
                    const step_observer& on_start) {
  if (run.costs.size() != run.network.ops.size()) {
    throw std::invalid_argument("the profile has " + std::to_string(run.costs.size()) +
                                " operators, the network " + std::to_string(run.network.ops.size()));
  }
  return iteration(run, memory, timeline, on_start).run();
}

}  // namespace um
