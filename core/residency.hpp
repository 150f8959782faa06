// Who is where over a plan: the bytes of the device arena that hold something, the blocks of the managed
// arena that are resident, and the room that each action takes and gives up.
#pragma once

#include <cstdint>
#include <vector>

#include "core/managed_map.hpp"

namespace um {

// Of one action: ranges of the managed arena whose blocks become resident, or have to be filled up because
// only smaller tensors of theirs were; blocks that stop being resident.
struct room_change {
  std::vector<range> fresh;
  std::uint64_t freed = 0;
};

struct residency {
  std::vector<byte_count> live_device;         // one per action, as all below
  std::vector<std::uint64_t> resident_blocks;  // of the managed arena, after the action
  std::vector<room_change> changes;

  // Bytes in use after an action.
  byte_count in_use(std::size_t at) const { return live_device[at] + resident_blocks[at] * managed_block; }
  std::uint64_t most_blocks() const;
  // What takes room waits for those who gave it up: the last action without whom `capacity` blocks would be
  // exceeded, in whatever order they end; -1 if there is none.
  std::int32_t giver_of_room(std::size_t at, std::uint64_t capacity) const;
};

// As every iteration after the first finds it: managed residency of the first is contained in theirs.
residency residency_of(const graph& g, const memory_plan& plan, const layout& at, const managed_map& managed);

}  // namespace um
