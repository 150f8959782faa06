// Booked intervals of a resource that does one thing at a time, such as a copy engine.
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
  nanoseconds book_earliest(nanoseconds begin, nanoseconds length) {
    auto at = booked_.upper_bound(begin);
    if (at != booked_.begin()) begin = std::max(begin, std::prev(at)->second);
    for (; at != booked_.end() && at->first == begin; ++at) begin = at->second;
    nanoseconds end = begin + length;
    for (; at != booked_.end() && at->first < end; at = booked_.erase(at)) end += at->second - at->first;
    if (length > 0) book(begin, end);
    return begin;
  }

 private:
  // Books [begin, end) and merges it with neighbouring intervals.
  void book(nanoseconds begin, nanoseconds end) {
    const auto next = booked_.find(end);
    if (next != booked_.end()) {
      end = next->second;
      booked_.erase(next);
    }
    const auto after = booked_.lower_bound(begin);
    if (after != booked_.begin() && std::prev(after)->second == begin) {
      std::prev(after)->second = end;
    } else {
      booked_[begin] = end;
    }
  }

  std::map<nanoseconds, nanoseconds> booked_;  // booked intervals, begin to end; no two touch
};

}  // namespace um
