// Lifetimes: when each part of each tensor needs an address in the device arena or the managed arena, and
// which lifetimes every action uses. Input of packing, and of the hazards that lower() finds.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/copies.hpp"

namespace um {

// Alignment in bytes that engines of convolutions need. An operand at another address is copied into the
// workspace, like one that is not dense.
inline constexpr byte_count engine_alignment = 16;

inline constexpr std::uint32_t no_lifetime = std::numeric_limits<std::uint32_t>::max();

// A segment of a strip (or the workspace of one compute: what == no_lifetime) held during actions
// [begin, end). A staged tensor has one for each time it is resident.
struct lifetime {
  tensor_id what = no_lifetime;
  std::uint32_t strip = 0, segment = 0;
  bool managed = false;  // in the managed arena, else in the device arena
  std::uint32_t begin = 0, end = 0;
  std::uint32_t reused_from = 0;  // the action from which an in-place output has its address; else `end`
  byte_count bytes = 0;
  byte_count alignment = arena_alignment;
  byte_count first_byte = 0;  // inside the strip
  // Lifetimes that an action uses together, and those that share an address in place, lie at fixed distances:
  // in one block of the packing.
  std::uint32_t block = 0;
  byte_count offset = 0;  // inside the block
};

// A region in a strip, and the lifetimes that hold it, along the outer axis. None for what lies on the host.
struct strip_use {
  part_of_strip what;
  std::vector<std::uint32_t> lifetimes;
};

// Where a compute reads or writes an operand: dense in a strip, or gathered in a part of the workspace.
struct operand_use {
  std::vector<strip_use> sources;  // what is read; one, unless it has to be gathered
  std::vector<strip_use> targets;  // what is written: one, or none
  bool in_scratch = false;
  byte_count scratch_offset = 0;  // in the workspace
};

struct action_use {
  std::vector<operand_use> operands;  // compute
  std::uint32_t workspace = no_lifetime;
  byte_count workspace_bytes = 0;    // workspace of the operator; gathered operands lie behind it
  strip_use moved;                   // prefetch and evict of staged tensors
  std::vector<std::uint32_t> cells;  // prefetch and evict: of which a copy is to be made
};

struct lifetime_table {
  std::vector<strip_layout> strips;  // per tensor
  std::vector<lifetime> lifetimes;
  std::vector<std::vector<std::uint32_t>> by_tensor;  // per tensor: indices into lifetimes, by begin
  std::vector<action_use> actions;
  std::uint32_t block_count = 0;
};

}  // namespace um
