// A network as data: tensors, and operators in execution order. A tensor has one writer, or none if it is
// given (inputs, labels, parameters). An operator that updates a parameter lists it as an input and as an
// output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/names.hpp"
#include "core/operators.hpp"
#include "core/tensor.hpp"

namespace um {

// A range of operators or steps: indices first to last, both included.
struct index_range {
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const index_range&, const index_range&) = default;
};

// Precision of products: the arithmetic unit, and the type to which operands are rounded. Sums are always
// fp32.
enum class precision : std::uint8_t {
  fp32,  // fp32 throughout, no TF32
  tf32,  // operands rounded to TF32 (10 bits of mantissa) inside convolutions and linear layers
  bf16,  // operands of type bf16
};
template <>
inline constexpr std::array enum_names<precision>{"fp32"sv, "tf32"sv, "bf16"sv};

// in[input] and out[output] may share memory if no operator reads the input afterwards.
struct may_alias {
  std::uint32_t input = 0, output = 0;
  friend bool operator==(const may_alias&, const may_alias&) = default;
};

struct op {
  std::string name;
  op_attributes attributes;
  std::vector<tensor_id> in, out;
  bool is_repeatable = true;  // false: running it twice changes the result, as for updates in place
  std::optional<may_alias> alias;
};

using op_id = std::uint32_t;

template <class... Kinds>
bool has_kind(const op& o) {
  return (std::holds_alternative<Kinds>(o.attributes.value) || ...);
}

struct graph {
  std::string name;
  std::vector<tensor> tensors;
  std::vector<op> ops;
  precision arithmetic = precision::fp32;
  // Whether tensors that are not alive at the same time may share addresses. If not, only in-place operators
  // share memory, as in frameworks that allocate data and gradient of every layer once.
  bool shares_memory = true;
};

// The reason why the graph is not well formed (an id out of range, two writers of a tensor, a read before the
// write, extents that do not match the operator, a size beyond 2^63); nothing if it is.
std::optional<std::string> defect_of(const graph& g);

// Label of operators that stand for a program's work on the CPU between its kernels, as traces record it.
// They access managed memory as the CPU does and can only be simulated.
inline constexpr std::string_view cpu_label = "cpu";

// Whether `o` is an opaque operator with the label "cpu".
inline bool runs_on_cpu(const op& o) {
  const auto* const a = std::get_if<opaque>(&o.attributes.value);
  return a != nullptr && a->label == cpu_label;
}

// Whether some operator is opaque. The values in tensors are then meaningless.
bool has_opaque(const graph& g);

// Sum of bytes of all tensors of a role.
byte_count bytes_of(const graph& g, role use);

// Bytes of all tensors that some operator reads or writes, each counted once.
byte_count touched_bytes(const graph& g);

}  // namespace um
