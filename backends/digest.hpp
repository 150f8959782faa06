// Hashes bytes in order to 64 bits, to tell whether two runs computed the same bits. The hash is not
// cryptographic, and the same on every little-endian machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace um {

class digest {
 public:
  // Hashes the bytes of each call as one piece: other pieces give another hash.
  void add(std::span<const std::byte> bytes) {
    std::size_t i = 0;
    for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, sizeof word);
      mix(word);
    }
    std::uint64_t tail = 0;
    if (i < bytes.size()) std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
    mix(tail);
    mix(bytes.size());
  }

  std::uint64_t value() const { return state_; }

 private:
  void mix(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15U;
    state_ ^= state_ >> 32;
  }
  std::uint64_t state_ = 0x6a09e667f3bcc908U;
};

}  // namespace um
