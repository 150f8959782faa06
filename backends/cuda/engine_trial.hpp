// How candidates for an operator are timed, and when a list of them is left. Pure functions over
// timing callbacks: what runs is the caller's.
#pragma once

#include <functional>
#include <limits>

#include "core/units.hpp"

namespace um {

constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();

struct candidate {
  std::function<nanoseconds()> first;  // the first call, with what it loads; `never` if it is of no use
  std::function<nanoseconds(int before, int counted)> median;  // of calls after some that do not count
};

// Time of one call, by as few calls as tell whether `to_beat` is beaten. One call of what is slower by
// a quarter even without what that call may have loaded, whose time is then at least what is returned; two
// of what is so in its second call, or takes long (four below 1 ms); others, up to 14.
nanoseconds trial_time(const candidate& of, nanoseconds to_beat);

// With a list that has the likely candidates first: it is left once a dozen, or those of a second and a half,
// have gained nothing.
class patience {
 public:
  explicit patience(nanoseconds now) : gained_(now) {}
  void gained(nanoseconds now);
  void in_vain() { ++idle_; }
  bool lasts(nanoseconds now) const;

 private:
  int idle_ = 0;
  nanoseconds gained_;
};

}  // namespace um
