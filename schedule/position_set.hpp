#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "schedule/uses.hpp"

namespace um {

// A set of positions below `end`, of which the first is taken out: a bit for each, and a bit for each word of
// these.
class position_set {
 public:
  explicit position_set(position end)
      : bits_(static_cast<std::size_t>(end) / word_bits + 1), words_(bits_.size() / word_bits + 1) {}
  void add(position at) {
    const auto i = static_cast<std::size_t>(at);
    bits_[i / word_bits] |= std::uint64_t{1} << i % word_bits;
    words_[i / word_bits / word_bits] |= std::uint64_t{1} << i / word_bits % word_bits;
  }
  // The first; -1: there is none.
  position take_first() {
    for (std::size_t top = 0; top < words_.size(); ++top) {
      if (words_[top] == 0) continue;
      const std::size_t word = top * word_bits + static_cast<std::size_t>(std::countr_zero(words_[top]));
      const auto bit = static_cast<std::size_t>(std::countr_zero(bits_[word]));
      bits_[word] &= bits_[word] - 1;
      if (bits_[word] == 0) words_[top] &= words_[top] - 1;
      return static_cast<position>(word * word_bits + bit);
    }
    return -1;
  }

 private:
  static constexpr std::size_t word_bits = 64;
  std::vector<std::uint64_t> bits_, words_;
};

}  // namespace um
