// The busy intervals of a resource that does one thing at a time, such as a copy engine.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

#include "core/units.hpp"

namespace um {

class calendar {
 public:
  // Books the first free time from `begin` on, in pieces that add up to `length`. Returns the begin of the
  // first piece.
  nanoseconds take_early(nanoseconds begin, nanoseconds length) {
    auto at = taken_.upper_bound(begin);
    if (at != taken_.begin()) begin = std::max(begin, std::prev(at)->second);
    for (; at != taken_.end() && at->first == begin; ++at) begin = at->second;
    nanoseconds end = begin + length;
    for (; at != taken_.end() && at->first < end; at = taken_.erase(at)) end += at->second - at->first;
    if (length > 0) take(begin, end);
    return begin;
  }

  // Books the last free time before `end`, in pieces that add up to `length`. Returns the begin of the first
  // piece.
  nanoseconds take_late(nanoseconds end, nanoseconds length) {
    auto at = taken_.lower_bound(end);
    if (at != taken_.begin() && std::prev(at)->second > end) end = (--at)->first;
    while (at != taken_.begin() && std::prev(at)->second == end) end = (--at)->first;
    nanoseconds begin = end - length;
    while (at != taken_.begin() && std::prev(at)->second > begin) {
      --at;
      begin -= at->second - at->first;
      at = taken_.erase(at);
    }
    if (length > 0) take(begin, end);
    return begin;
  }

 private:
  // Books [begin, end) and merges it with neighbouring intervals.
  void take(nanoseconds begin, nanoseconds end) {
    const auto next = taken_.find(end);
    if (next != taken_.end()) {
      end = next->second;
      taken_.erase(next);
    }
    const auto after = taken_.lower_bound(begin);
    if (after != taken_.begin() && std::prev(after)->second == begin) {
      std::prev(after)->second = end;
    } else {
      taken_[begin] = end;
    }
  }

  std::map<nanoseconds, nanoseconds> taken_;  // begin and end of stretches that do not touch
};

}  // namespace um
