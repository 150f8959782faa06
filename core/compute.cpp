#include "core/compute.hpp"

#include <stdexcept>

namespace um {

std::optional<op> cheap_recomputation_of(const op& o) {
  const auto* const first = std::get_if<batch_norm>(&o.attributes.value);
  if (first == nullptr) return std::nullopt;
  op second{o.name, normalize{first->relu, first->relu6}, o.in, {o.out[0]}, o.is_repeatable, {}};
  second.in.insert(second.in.begin() + 3, {o.out[1], o.out[2]});
  return second;
}

op operator_of(const graph& g, const compute& c) {
  const op& first = g.ops[c.op];
  if (!c.cheap_recompute) return first;
  if (std::optional<op> second = cheap_recomputation_of(first)) return *std::move(second);
  throw std::invalid_argument("operator " + first.name + " (" + std::string(kind_of(first.attributes)) +
                              ") takes nothing from the first time when it is computed again");
}

std::vector<access> accesses_of(const graph& g, const compute& c) {
  return c.cheap_recompute ? accesses_of(g, operator_of(g, c), c.part) : accesses_of(g, g.ops[c.op], c.part);
}

compute as_cheap_recomputation(const graph& g, compute c) {
  c.cheap_recompute = cheap_recomputation_of(g.ops[c.op]).has_value();
  return c;
}

double cheap_recomputation_share(const graph& g, const op& o) {
  const std::optional<op> second = cheap_recomputation_of(o);
  if (!second) return 1;
  const work w = work_of(g, *second);
  const auto moved = static_cast<double>(w.read + w.written);
  return moved / (moved + static_cast<double>(bytes_of(g.tensors[o.in[0]])));
}

}  // namespace um
