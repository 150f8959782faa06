// How many floating-point operations an operator takes.
#pragma once

#include <cstdint>

#include "core/graph.hpp"

namespace um {

// Of the whole operator; multiply and add count as two. Throws std::overflow_error, naming it, where they are
// 2^64 or more.
std::uint64_t flops_of(const graph& g, const op& o);

}  // namespace um
