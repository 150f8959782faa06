// Makes an engine on a GPU from every operator of a graph, or a part of it.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/access.hpp"
#include "core/graph.hpp"

namespace um {

// Chooses an engine for a part of `o`. It is bound to operands in the operator's order, inputs then
// outputs, each dense and of the extents of the region that the part touches. All their addresses are
// multiples of `alignment` bytes. Throws unsupported if no engine computes it, std::invalid_argument if
// `alignment` is less than operand_alignment(o), and as accesses_of() does.
engine choose_engine(session& gpu, const graph& g, const op& o, const box& part, std::uint32_t alignment,
                     byte_count workspace_cap);

// Returns text that is equal for equal work: kind, attributes, and the extents, type, order and access mode
// of every operand.
std::string signature_of(const graph& g, const op& o, const box& part);

bool same_work(const graph& g, const op& a, const op& b);

}  // namespace um
