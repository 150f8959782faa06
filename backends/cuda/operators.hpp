// Every operator of a graph, whole or a slice of it, as an engine on a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/access.hpp"
#include "core/graph.hpp"

namespace um {

// Chooses an engine for a part of `o`; it is bound to operands in the operator's order, inputs then outputs,
// each dense and of the extents of the region that the part touches. `alignment` is what all their
// addresses are multiples of, in bytes. Throws unsupported where no engine does it, std::invalid_argument
// where `alignment` is less than operand_alignment(o), and as accesses_of() does.
engine choose_engine(session& on, const graph& g, const op& o, const box& part, std::uint32_t alignment,
                     byte_count workspace_cap);

// What tells the work of one part of an operator from that of another, in words: kind, attributes, and the
// extents, type, order and mode of access of every operand.
std::string signature_of(const graph& g, const op& o, const box& part);

// True if the two operators are the same work on the same shapes.
bool same_work(const graph& g, const op& a, const op& b);

}  // namespace um
