// Reserved intervals of a resource that does one thing at a time, such as a copy engine.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

#include "core/units.hpp"

namespace um {

class calendar {
 public:
  // Reserves the first free time from `begin` on, in pieces that add up to `length`. Returns the begin of the
  // first piece.
  nanoseconds book_first_free(nanoseconds begin, nanoseconds length) {
    auto at = busy_.upper_bound(begin);
    if (at != busy_.begin()) begin = std::max(begin, std::prev(at)->second);
    for (; at != busy_.end() && at->first == begin; ++at) begin = at->second;
    nanoseconds end = begin + length;
    for (; at != busy_.end() && at->first < end; at = busy_.erase(at)) end += at->second - at->first;
    if (length > 0) book(begin, end);
    return begin;
  }

 private:
  // Reserves [begin, end) and merges it with adjacent intervals.
  void book(nanoseconds begin, nanoseconds end) {
    const auto next = busy_.find(end);
    if (next != busy_.end()) {
      end = next->second;
      busy_.erase(next);
    }
    const auto after = busy_.lower_bound(begin);
    if (after != busy_.begin() && std::prev(after)->second == begin) {
      std::prev(after)->second = end;
    } else {
      busy_[begin] = end;
    }
  }

  std::map<nanoseconds, nanoseconds> busy_;  // begin to end of each reserved interval; no two are adjacent
};

}  // namespace um
