// Implements defect_of(graph): the structure of a graph. operands.hpp checks the operands of each operator.
#include <algorithm>
#include <limits>

#include "core/graph.hpp"
#include "core/operands.hpp"

namespace um {
namespace {

using defect = std::optional<std::string>;

defect tensors_defect(const graph& g) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t total = 0;
  for (const tensor& t : g.tensors) {
    std::uint64_t bytes = element_bytes(t.type);
    for (const std::int64_t extent : {t.shape.n, t.shape.c, t.shape.h, t.shape.w}) {
      if (extent < 1) return "tensor " + t.name + " of shape " + to_text(t.shape) + " has an extent below 1";
      const auto product = checked_multiply(bytes, static_cast<std::uint64_t>(extent));
      if (!product || *product > most) {
        return "tensor " + t.name + " of shape " + to_text(t.shape) + " does not fit in 2^63 bytes";
      }
      bytes = *product;
    }
    total += bytes;
    if (total > most) return "all tensors together do not fit in 2^63 bytes, counted up to " + t.name;
  }
  return std::nullopt;
}

defect alias_defect(const graph& g, const op& o) {
  if (!o.alias) return std::nullopt;
  if (o.alias->input >= o.in.size() || o.alias->output >= o.out.size())
    return "aliases an operand it does not have";
  const tensor &from = g.tensors[o.in[o.alias->input]], &to = g.tensors[o.out[o.alias->output]];
  if (bytes_of(from) == bytes_of(to)) return std::nullopt;
  return from.name + " and " + to.name + " may alias but differ in size";
}

// Checks that reads come after writes and every tensor is written once. `written`: a flag per tensor.
defect order_defect(const graph& g, const op& o, std::vector<bool>& written) {
  for (const tensor_id id : o.in) {
    const tensor& t = g.tensors[id];
    if (!persists(t.role) && !written[id]) return "reads " + t.name + " before it is written";
  }
  for (const tensor_id id : o.out) {
    const tensor& t = g.tensors[id];
    const bool is_read = std::ranges::find(o.in, id) != o.in.end();
    const bool updates =
        has_kind<sgd_update, optimizer_step>(o) || (has_kind<opaque>(o) && is_read && !o.is_repeatable);
    if (written[id]) return "is a second writer of " + t.name;
    if (updates ? t.role != role::parameter && t.role != role::state : persists(t.role)) {
      return "may not write " + t.name + ", a tensor of role " + std::string(to_text(t.role));
    }
    if (!updates && is_read) return "reads and writes " + t.name;
    written[id] = true;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> defect_of(const graph& g) {
  if (auto d = tensors_defect(g)) return d;
  std::vector<bool> written(g.tensors.size());
  for (const op& o : g.ops) {
    auto d = missing_operands_defect(g, o);
    if (!d) d = order_defect(g, o, written);
    if (!d) d = operands_defect(g, o);
    if (!d) d = alias_defect(g, o);
    if (d) return "operator " + o.name + " (" + std::string(kind_of(o.attributes)) + "): " + *d;
  }
  return std::nullopt;
}

}  // namespace um
