// Groups lifetimes that need fixed distances from each other into blocks, which are packed as units.
#pragma once

#include "core/lifetime_table.hpp"
#include "core/pack.hpp"

namespace um {

// Sets lifetime::block, lifetime::offset, lifetime::reused_from and lifetime_table::block_count. Segments
// that one action uses together become adjacent. An in-place output gets the address of its input if the
// input's whole region dies there and the merged blocks do not overlap elsewhere.
void join_blocks(const graph& g, const memory_plan& plan, lifetime_table& table);

// The piece of its block that each lifetime occupies. The last piece is rounded up to the end of the block.
std::vector<piece> pieces_of(const lifetime_table& table);

}  // namespace um
