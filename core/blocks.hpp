// Groups lifetimes that must lie at fixed distances from each other into blocks for packing.
#pragma once

#include "core/lifetime_table.hpp"
#include "core/pack.hpp"

namespace um {

// Fills in lifetime::block, lifetime::offset, lifetime::reused_from and lifetime_table::block_count. Segments
// that one action uses together lie side by side. An output that may take an input's place does so where all
// of the input's region ends there, and nothing else of the two blocks would then meet.
void join_blocks(const graph& g, const memory_plan& plan, lifetime_table& table);

// The piece of its block that each lifetime holds. The last one is rounded up to the end of the block.
std::vector<piece> pieces_of(const lifetime_table& table);

}  // namespace um
