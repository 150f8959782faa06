// Which lifetimes lie at fixed distances from each other.
#pragma once

#include "core/lifetime_table.hpp"
#include "core/pack.hpp"

namespace um {

// Fills in lifetime::block, lifetime::offset, lifetime::gives_place and lifetime_table::blocks. Segments that
// one action takes together lie side by side. An output that may take an input's place does so where all of
// the input's region ends there, and nothing else of the two blocks would then meet.
void join_blocks(const graph& g, const memory_plan& plan, lifetime_table& table);

// What each lifetime holds of its block, rounded up where the block ends.
std::vector<piece> pieces_of(const lifetime_table& table);

}  // namespace um
