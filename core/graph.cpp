#include "core/graph.hpp"

#include <algorithm>

namespace um {

std::string_view kind_of(const op_attributes& attributes) {
  return std::visit([]<class Kind>(const Kind&) { return Kind::kind; }, attributes.value);
}

std::vector<op_attributes> every_kind() {
  return []<class... Kinds>(const std::variant<Kinds...>&) {
    return std::vector<op_attributes>{Kinds{}...};
  }(op_attributes{}.value);
}

bool has_opaque(const graph& g) {
  return std::ranges::any_of(g.ops, [](const op& o) { return has_kind<opaque>(o); });
}

byte_count bytes_of(const graph& g, role use) {
  byte_count total = 0;
  for (const tensor& t : g.tensors) {
    if (t.role == use) total += bytes_of(t);
  }
  return total;
}

byte_count touched_bytes(const graph& g) {
  std::vector<bool> seen(g.tensors.size(), false);
  byte_count total = 0;
  const auto add = [&](tensor_id id) {
    if (!seen.at(id)) total += bytes_of(g.tensors[id]);
    seen[id] = true;
  };
  for (const op& o : g.ops) {
    for (const tensor_id id : o.in) add(id);
    for (const tensor_id id : o.out) add(id);
  }
  return total;
}

}  // namespace um
