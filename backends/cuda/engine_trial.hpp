// Decides how often candidates for an operator are timed, and when the search ends a list of them. These are
// pure functions of timing callbacks.
#pragma once

#include <functional>
#include <limits>

#include "core/units.hpp"

namespace um {

constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

// A call that takes longer is timed once: loading is at most a twelfth of it.
constexpr nanoseconds very_long_call = 1'000'000'000;

struct candidate {
  // Times the first call, loading included. Returns `never` if the candidate is useless.
  std::function<nanoseconds()> first;
  // Returns the median time of `counted` calls after `before` calls that are not counted.
  std::function<nanoseconds(int before, int counted)> median;
};

// Returns the time of a call. Makes as few calls as decide whether the candidate beats `to_beat`. One call is
// enough if it takes over a second, or if it is a quarter slower than `to_beat` even without the loading of
// kernels; the result is then a lower bound. Two calls are enough if the second is a quarter slower, or takes
// over 50 ms. Calls below 1 ms are made three more times, in a graph, before that is decided. Otherwise the
// result is the median of 3 to 10 more calls.
nanoseconds trial_time(const candidate& of, nanoseconds to_beat);

// Ends the search of a list, likely candidates first, once a dozen candidates, or a second and a half, have
// brought no gain.
class search_patience {
 public:
  explicit search_patience(nanoseconds now) : last_gain_at_(now) {}
  void record_gain(nanoseconds now);
  void failed_to_gain() { ++tries_without_gain_; }
  bool may_continue(nanoseconds now) const;

 private:
  int tries_without_gain_ = 0;
  nanoseconds last_gain_at_;
};

}  // namespace um
