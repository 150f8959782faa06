#include "backends/cuda/engine_trial.hpp"

#include <algorithm>

namespace um {
namespace {

bool is_clearly_slower(nanoseconds time, nanoseconds than) {
  return time / 5 * 4 > than;
}

}  // namespace

nanoseconds trial_time(const candidate& of, nanoseconds to_beat) {
  constexpr nanoseconds loading =
      80'000'000;  // allowance for loading a kernel; at most 40 ms were seen on an H200
  constexpr nanoseconds long_call = 50'000'000, span = 25'000'000;
  constexpr nanoseconds brief_call =
      1'000'000;  // of so brief a call, the time of the launch is a large share
  const nanoseconds first = of.first();
  if (first == never || first > very_long_call) return first;
  if (is_clearly_slower(first - loading, to_beat)) return first - loading;
  nanoseconds once = std::max<nanoseconds>(of.median(0, 1), 1);
  // Several calls are timed as `to_beat` was, in a graph if they are brief.
  if (once < brief_call) once = std::max<nanoseconds>(of.median(1, 3), 1);
  if (once > long_call || is_clearly_slower(once, to_beat)) return once;
  return of.median(0, static_cast<int>(std::clamp<nanoseconds>(span / once, 3, 10)));
}

void search_patience::record_gain(nanoseconds now) {
  tries_without_gain_ = 0;
  last_gain_at_ = now;
}

bool search_patience::may_continue(nanoseconds now) const {
  constexpr int max_tries_without_gain = 12;
  constexpr nanoseconds max_time_without_gain = 1'500'000'000;
  return tries_without_gain_ < max_tries_without_gain && now - last_gain_at_ < max_time_without_gain;
}

}  // namespace um
