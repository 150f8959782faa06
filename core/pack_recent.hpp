// A cache of recent packings: searches place many plans more than once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/pack.hpp"

namespace um::placing {

class recent_packings {
 public:
  // The cached packing of equal blocks; if there is none, the result of `pack`, which is then cached.
  packing find_or_make(std::span<const block> blocks, const auto& pack) {
    std::vector<std::uint64_t> key = key_of(blocks);
    const auto known = std::ranges::find(entries_, key, &entry::first);
    if (known != entries_.end()) return known->second;
    entries_.emplace_back(std::move(key), pack(blocks));
    words_ += entries_.back().first.size();
    while (words_ > max_words && entries_.size() > 1) {
      words_ -= entries_.front().first.size();
      entries_.pop_front();
    }
    return entries_.back().second;
  }

 private:
  static constexpr std::size_t max_words = 1'000'000;  // 8 MB of keys per thread
  using entry = std::pair<std::vector<std::uint64_t>, packing>;

  static std::vector<std::uint64_t> key_of(std::span<const block> blocks) {
    std::vector<std::uint64_t> key;
    key.reserve(5 * blocks.size());
    for (const block& b : blocks) {
      key.insert(key.end(), {b.alignment, b.pieces.size()});
      for (const piece& p : b.pieces)
        key.insert(key.end(), {p.offset, p.bytes, std::uint64_t{p.begin} << 32 | p.end});
    }
    return key;
  }

  std::deque<entry> entries_;  // oldest first
  std::size_t words_ = 0;      // total size of all keys
};

}  // namespace um::placing
