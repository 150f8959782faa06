// Every kind of operator on small operands, with what it may be joined with and without: a row for each form
// that it has. What the tests of extents, parts, files, gradients and engines run.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.hpp"

namespace um::reference {

enum class kept : std::uint8_t {
  alike,  // f32, or bf16 together with the others that are alike
  f32,
  fixed,  // labels and indices
};

struct operand_of {
  dims shape;
  kept as = kept::alike;
  dtype type = dtype::f32;
};

struct operator_case {
  op_attributes what;
  std::vector<operand_of> in, out;
  std::vector<std::size_t> updated = {};  // inputs that are its outputs, in place of `out`
};

std::vector<operator_case> operator_cases();

// The operator alone: tensors t0, t1, ..., inputs first. What is f32 in every precision is a parameter or its
// gradient, so that networks/passes.hpp leaves it so.
graph graph_of(const operator_case& c);

}  // namespace um::reference
