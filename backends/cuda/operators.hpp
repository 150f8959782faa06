// Every operator of a graph, whole or a part of the batch, as an engine on a GPU.
#pragma once

#include <cstdint>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/access.hpp"
#include "core/graph.hpp"

namespace um {

// Chooses an engine for a part of `o`; it is bound to operands in the operator's order, inputs
// then outputs, each at the first element that the part touches. `alignment` is what all those
// addresses are multiples of, in bytes. Throws unsupported for a cut along another axis than
// the batch.
engine choose_engine(session& on, const graph& g, const op& o, const box& part, std::uint32_t alignment,
                     byte_count workspace_cap);

// True if the two operators are the same work on the same shapes.
bool same_work(const graph& g, const op& a, const op& b);

}  // namespace um
