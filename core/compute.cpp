#include "core/compute.hpp"

#include <stdexcept>

namespace um {

std::optional<op> repetition_of(const op& o) {
  const auto* const first = std::get_if<batch_norm>(&o.what);
  if (first == nullptr) return std::nullopt;
  op second{o.name, normalize{first->relu, first->capped}, o.in, {o.out[0]}, o.repeatable, {}};
  second.in.insert(second.in.begin() + 3, {o.out[1], o.out[2]});
  return second;
}

op operator_of(const graph& g, const compute& c) {
  const op& first = g.ops[c.what];
  if (!c.again) return first;
  if (std::optional<op> second = repetition_of(first)) return *std::move(second);
  throw std::invalid_argument("operator " + first.name + " (" + std::string(kind_of(first.what)) +
                              ") takes nothing from the first time when it is computed again");
}

std::vector<access> accesses_of(const graph& g, const compute& c) {
  return c.again ? accesses_of(g, operator_of(g, c), c.part) : accesses_of(g, g.ops[c.what], c.part);
}

compute repeated(const graph& g, compute c) {
  c.again = repetition_of(g.ops[c.what]).has_value();
  return c;
}

double share_of_repetition(const graph& g, const op& o) {
  const std::optional<op> second = repetition_of(o);
  if (!second) return 1;
  const work w = work_of(g, *second);
  const auto moved = static_cast<double>(w.read + w.written);
  return moved / (moved + static_cast<double>(bytes_of(g.tensors[o.in[0]])));
}

}  // namespace um
