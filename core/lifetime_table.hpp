// Lifetimes: when each part of each tensor needs an address in the device arena or the managed arena, and
// which lifetimes every action uses. Input of packing and of hazards.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/copies.hpp"

namespace um {

// Alignment in bytes that convolution engines need. An operand at another address is copied into the
// workspace, like one that is not dense.
inline constexpr byte_count engine_alignment = 16;

inline constexpr std::uint32_t no_lifetime = std::numeric_limits<std::uint32_t>::max();

// The lifetime of a segment of a strip, or of the workspace of one compute (tensor == no_lifetime): it takes
// memory during actions [begin, end). A staged tensor has one lifetime for each stay on the device.
struct lifetime {
  tensor_id tensor = no_lifetime;
  std::uint32_t strip = 0, segment = 0;
  bool is_managed = false;           // true: in the managed arena; false: in the device arena
  std::uint32_t begin = 0, end = 0;  // actions [begin, end)
  std::uint32_t reused_from =
      0;  // action from which an in-place output uses its address; `end` if there is none
  byte_count bytes = 0;
  byte_count alignment = arena_alignment;
  byte_count first_byte = 0;  // offset inside the strip
  // Lifetimes with fixed distances share a block of the packing: those that one action uses together, and
  // those that share an address in place.
  std::uint32_t block = 0;
  byte_count offset = 0;  // offset inside the block
};

// A region in a strip, and the lifetimes of the segments that hold it; none if the tensor is on the host.
struct strip_use {
  strip_region part;
  std::vector<std::uint32_t> lifetimes;  // indices of the lifetimes of its segments
};

// How a compute accesses an operand: in place in a strip, or gathered into the workspace.
struct operand_use {
  std::vector<strip_use> sources;  // strips that are read; several only if the operand is gathered
  std::vector<strip_use> targets;  // the strip that is written, if any
  bool is_gathered = false;
  byte_count gathered_offset = 0;  // offset within the workspace
};

struct action_use {
  std::vector<operand_use> operands;  // of a compute
  std::uint32_t workspace = no_lifetime;
  byte_count workspace_bytes = 0;            // workspace of the operator; gathered operands follow it
  strip_use moved;                           // of a prefetch or evict of a staged tensor
  std::vector<std::uint32_t> cells_to_copy;  // of a prefetch or evict: cells that must be copied
};

struct lifetime_table {
  std::vector<strip_layout> strips;  // per tensor
  std::vector<lifetime> lifetimes;
  std::vector<std::vector<std::uint32_t>> by_tensor;  // per tensor: indices into lifetimes, sorted by begin
  std::vector<action_use> actions;
  std::uint32_t block_count = 0;
};

}  // namespace um
