// Decides how candidates for an operator are timed, and when the search leaves a list of them. These are pure
// functions over timing callbacks.
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

// Times one call, by as few calls as decide whether the candidate beats `to_beat`. It makes one call if that
// is slower by a quarter even without the time that it may have spent on loading; the result is then a lower
// bound, or if that takes over a second. It makes two if that holds for the second call, or if calls are long
// (six below 1 ms), else up to 16. Brief ones run four times, for a graph.
nanoseconds trial_time(const candidate& of, nanoseconds to_beat);

// Ends the search of a list, likely candidates first, once a dozen candidates, or a second and a half, have
// brought no gain.
class search_patience {
 public:
  explicit search_patience(nanoseconds now) : last_gain_(now) {}
  void record_gain(nanoseconds now);
  void failed_to_gain() { ++tries_without_gain_; }
  bool is_left(nanoseconds now) const;

 private:
  int tries_without_gain_ = 0;
  nanoseconds last_gain_;
};

}  // namespace um
