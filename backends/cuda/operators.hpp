// Every operator of a graph, whole or a batch slice, as an engine on a GPU.
#pragma once

#include <cstdint>

#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"
#include "core/access.hpp"
#include "core/graph.hpp"

namespace um {

// Chooses an engine for slice `s` of `o`; it is bound to operands in the operator's order, inputs
// then outputs, each at the first element that the slice touches. `alignment` is what all those
// addresses are multiples of, in bytes. Throws unsupported for a cut along another axis than
// the batch.
engine choose_engine(session& on, const graph& g, const op& o, const slice& s, std::uint32_t alignment,
                     byte_count workspace_cap);

// Bytes from a tensor's first element to the first one that a slice along the batch touches.
byte_count first_byte_of(const tensor& t, const region& r);

// True if the two operators are the same work on the same shapes.
bool same_work(const graph& g, const op& a, const op& b);

}  // namespace um
