// Arenas: a plan has one allocation for each of the three kinds of memory that its addresses refer to. Arenas
// exist from before the first step of a plan until after its last.
#pragma once

#include <cstddef>
#include <memory>

#include "core/units.hpp"

namespace um {

class arena {
 public:
  arena() = default;
  arena(void* data, byte_count bytes, void (*release)(void*) noexcept)
      : data_(static_cast<std::byte*>(data), release), bytes_(bytes) {}

  std::byte* data() const { return data_.get(); }
  byte_count bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, void (*)(void*) noexcept> data_{nullptr, [](void*) noexcept {}};
  byte_count bytes_ = 0;
};

// Allocate an arena. They throw out_of_memory, giving the bytes requested and those free. 0 bytes give an
// empty arena.
arena device_arena(byte_count bytes);
arena pinned_arena(byte_count bytes);

enum class managed_limit {
  // at most 80 % of the device memory that is free now: driver defects hung a GPU when managed memory
  // exceeded the free memory, and other programs may share the GPU
  guarded,
  none,  // no limit; only if the user explicitly allowed native oversubscription
};
arena managed_arena(byte_count bytes, managed_limit limit = managed_limit::guarded);

// Maximum size of a guarded managed arena.
constexpr byte_count guarded_share(byte_count free_bytes) {
  return free_bytes / 5 * 4;
}

}  // namespace um
