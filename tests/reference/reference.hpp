// Every operator in double precision, written as the sums that define it: the yardstick for the
// operators of real backends. Slow and plain on purpose; no operator shares code with a backend.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/graph.hpp"
#include "tests/reference/values.hpp"

namespace um::reference {

// The values of all tensors after one pass over the graph. `given` holds the inputs, labels and
// parameters; a parameter that is updated has its new value in the result. Throws
// std::invalid_argument naming a tensor that is missing or has the wrong number of elements, and
// for a graph that defect_of() refuses.
std::map<tensor_id, values> execute(const graph& g, const std::map<tensor_id, values>& given);

// One operator: its inputs in order -> its outputs in order. The operands' shapes are those of
// the graph that the operator belongs to.
std::vector<values> execute(const graph& g, const op& o, std::span<const values> in);

// Throws std::invalid_argument, naming the tensor, if these are not as many as it has elements.
void expect_size(const tensor& t, const values& v);

// Numbers for the tensors that a graph is given, the same on every platform for the same seed and
// name: inputs and gradients fed from outside in (-1, 1); weights in (-1, 1) * sqrt(6 / fan-in),
// biases, shifts and means in (-0.1, 0.1), scales and inverse deviations in (0.5, 1.5); labels below
// the number of classes, second moments as scales. They are multiples of 2^-20, so that floats
// hold them exactly.
std::map<tensor_id, values> numbers_for(const graph& g, std::uint64_t seed);

}  // namespace um::reference
