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
    for (const lane_step& s : steps) to_do_ += s.time_alone;
    find_next_event();
  }

  bool is_busy() const { return is_busy_; }
  nanoseconds left() const { return left_; }
  // Steps run in order, so all events before this one have ended, of those in the lane.
  std::int32_t next_event() const { return next_event_; }
  // A lower bound on the time until the lane has finished.
  nanoseconds remaining() const { return to_do_ - (is_busy_ ? next_->time_alone - left_ : 0); }

  bool can_begin(std::int32_t computes, std::int32_t fetches, std::int32_t evicts) const {
    return !is_busy_ && next_ != end_ && next_->waits_for[0] < computes && next_->waits_for[1] < fetches &&
           next_->waits_for[2] < evicts;
  }
  void begin() {
    is_busy_ = true;
    left_ = next_->time_alone;
  }
  void finish() {
    is_busy_ = false;
    to_do_ -= next_->time_alone;
    ++next_;
    find_next_event();
  }

  nanoseconds wait(std::int64_t pace) const {
    if (!is_busy_) return never;
    return pace == full_pace ? left_ : (left_ * full_pace + pace - 1) / pace;
  }
  void pass(nanoseconds passed, std::int64_t pace) {
    left_ -= pace == full_pace ? passed : passed * pace / full_pace;
  }

 private:
  void find_next_event() { next_event_ = next_ == end_ ? no_event : next_->event; }

  const lane_step *next_, *end_;
  std::int32_t next_event_ = no_event;
  bool is_busy_ = false;
  nanoseconds left_ = 0;   // time that the running step still takes at full pace
  nanoseconds to_do_ = 0;  // time of the steps that have not ended
};

class lane_timer {
 public:
  lane_timer(const lane_steps& lanes, const shared_pace& pace)
      : compute_(lanes[static_cast<std::size_t>(lane::compute)]),
        fetch_(lanes[static_cast<std::size_t>(lane::to_device)]),
        evict_(lanes[static_cast<std::size_t>(lane::to_host)]),
        pace_(pace) {}

  nanoseconds run(nanoseconds most) {
    for (;;) {
      for (running_lane* x : {&compute_, &fetch_, &evict_}) {
        if (can_begin(*x)) x->begin();
      }
      const nanoseconds least =
          now_ + std::max({compute_.remaining(), fetch_.remaining(), evict_.remaining()});
      if (least > most) return least;
      both_ = fetch_.is_busy() && evict_.is_busy();
      if (compute_.is_busy() && compute_until_copies_change()) continue;
      const nanoseconds compute_wait = compute_.wait(full_pace), fetch_wait = fetch_.wait(fetch_pace()),
                        evict_wait = evict_.wait(evict_pace());
      const nanoseconds passed = std::min({compute_wait, fetch_wait, evict_wait});
      if (passed == never) return now_;
      now_ += passed;
      if (compute_.is_busy()) compute_.pass(passed, full_pace);
      copy_for(passed);
      if (compute_wait == passed) compute_.finish();
      if (fetch_wait == passed) fetch_.finish();
      if (evict_wait == passed) evict_.finish();
    }
  }

 private:
  bool can_begin(const running_lane& x) const {
    return x.can_begin(compute_.next_event(), fetch_.next_event(), evict_.next_event());
  }
  std::int64_t fetch_pace() const { return both_ ? pace_.to_device : full_pace; }
  std::int64_t evict_pace() const { return both_ ? pace_.to_host : full_pace; }
  void copy_for(nanoseconds passed) {
    if (fetch_.is_busy()) fetch_.pass(passed, fetch_pace());
    if (evict_.is_busy()) evict_.pass(passed, evict_pace());
  }

  // Ends computes one after another as long as no copy begins or ends. Whether a lane may begin or has
  // nothing to run now.
  bool compute_until_copies_change() {
    while (compute_.left() < std::min(fetch_.wait(fetch_pace()), evict_.wait(evict_pace()))) {
      now_ += compute_.left();
      copy_for(compute_.left());
      compute_.finish();
      if (!can_begin(compute_) || can_begin(fetch_) || can_begin(evict_)) return true;
      compute_.begin();
    }
    return false;
  }

  running_lane compute_, fetch_, evict_;
  shared_pace pace_;
  bool both_ = false;  // copies run in both directions
  nanoseconds now_ = 0;
};

}  // namespace

nanoseconds time_of_lanes(const lane_steps& lanes, const shared_pace& pace, nanoseconds most) {
  return lane_timer(lanes, pace).run(most);
}

}  // namespace um
