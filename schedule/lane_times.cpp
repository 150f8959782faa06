#include "schedule/lane_times.hpp"

#include <limits>

namespace um {
namespace {

constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
constexpr std::int32_t no_event = std::numeric_limits<std::int32_t>::max();

class running_lane {
 public:
  explicit running_lane(const std::vector<lane_step>& steps)
      : next_(steps.data()), end_(steps.data() + steps.size()) {
    for (const lane_step& s : steps) unfinished_time_ += s.time_alone;
    find_next_event();
  }

  bool is_busy() const { return is_busy_; }
  nanoseconds step_time_left() const { return step_time_left_; }
  // Event of the next unfinished step. A lane runs in order, so all earlier events of this lane have ended.
  std::int32_t next_event() const { return next_event_; }
  // A lower bound on the time until the lane has finished.
  nanoseconds remaining() const {
    return unfinished_time_ - (is_busy_ ? next_->time_alone - step_time_left_ : 0);
  }

  bool can_begin(std::int32_t computes, std::int32_t fetches, std::int32_t evicts) const {
    return !is_busy_ && next_ != end_ && next_->waits_for[0] < computes && next_->waits_for[1] < fetches &&
           next_->waits_for[2] < evicts;
  }
  void begin_step() {
    is_busy_ = true;
    step_time_left_ = next_->time_alone;
  }
  void finish_step() {
    is_busy_ = false;
    unfinished_time_ -= next_->time_alone;
    ++next_;
    find_next_event();
  }

  nanoseconds time_to_step_end(std::int64_t pace) const {
    if (!is_busy_) return never;
    return pace == full_pace ? step_time_left_ : (step_time_left_ * full_pace + pace - 1) / pace;
  }
  void advance(nanoseconds passed, std::int64_t pace) {
    step_time_left_ -= pace == full_pace ? passed : passed * pace / full_pace;
  }

 private:
  void find_next_event() { next_event_ = next_ == end_ ? no_event : next_->event; }

  const lane_step *next_, *end_;
  std::int32_t next_event_ = no_event;
  bool is_busy_ = false;
  nanoseconds step_time_left_ = 0;   // remaining time of the running step at full pace
  nanoseconds unfinished_time_ = 0;  // total time of the steps that have not ended
};

class lane_timer {
 public:
  lane_timer(const lane_steps& lanes, const shared_pace& pace)
      : compute_(lanes[static_cast<std::size_t>(lane::compute)]),
        fetch_(lanes[static_cast<std::size_t>(lane::to_device)]),
        evict_(lanes[static_cast<std::size_t>(lane::to_host)]),
        pace_(pace) {}

  nanoseconds run(nanoseconds max_time) {
    for (;;) {
      for (running_lane* x : {&compute_, &fetch_, &evict_}) {
        if (can_begin(*x)) x->begin_step();
      }
      const nanoseconds least =
          time_ + std::max({compute_.remaining(), fetch_.remaining(), evict_.remaining()});
      if (least > max_time) return least;
      are_both_copying_ = fetch_.is_busy() && evict_.is_busy();
      if (compute_.is_busy()) {
        compute_until_copies_change();
        if (!compute_.is_busy()) continue;
      }
      const nanoseconds compute_wait = compute_.time_to_step_end(full_pace),
                        fetch_wait = fetch_.time_to_step_end(fetch_pace()),
                        evict_wait = evict_.time_to_step_end(evict_pace());
      const nanoseconds passed = std::min({compute_wait, fetch_wait, evict_wait});
      if (passed == never) return time_;
      time_ += passed;
      if (compute_.is_busy()) compute_.advance(passed, full_pace);
      advance_copies(passed);
      if (compute_wait == passed) compute_.finish_step();
      if (fetch_wait == passed) fetch_.finish_step();
      if (evict_wait == passed) evict_.finish_step();
    }
  }

 private:
  bool can_begin(const running_lane& x) const {
    return x.can_begin(compute_.next_event(), fetch_.next_event(), evict_.next_event());
  }
  std::int64_t fetch_pace() const { return are_both_copying_ ? pace_.to_device : full_pace; }
  std::int64_t evict_pace() const { return are_both_copying_ ? pace_.to_host : full_pace; }
  void advance_copies(nanoseconds passed) {
    if (fetch_.is_busy()) fetch_.advance(passed, fetch_pace());
    if (evict_.is_busy()) evict_.advance(passed, evict_pace());
  }

  // Runs computes one after another, until a copy may begin, the compute lane must wait, or the current
  // compute outlasts a copy.
  void compute_until_copies_change() {
    while (compute_.step_time_left() <
           std::min(fetch_.time_to_step_end(fetch_pace()), evict_.time_to_step_end(evict_pace()))) {
      time_ += compute_.step_time_left();
      advance_copies(compute_.step_time_left());
      compute_.finish_step();
      if (!can_begin(compute_) || can_begin(fetch_) || can_begin(evict_)) return;
      compute_.begin_step();
    }
  }

  running_lane compute_, fetch_, evict_;
  shared_pace pace_;
  bool are_both_copying_ = false;  // whether copies run in both directions
  nanoseconds time_ = 0;
};

}  // namespace

nanoseconds time_of_lanes(const lane_steps& lanes, const shared_pace& pace, nanoseconds max_time) {
  return lane_timer(lanes, pace).run(max_time);
}

}  // namespace um
