#include <vector>

#include "networks/passes.hpp"

namespace um {

graph without_unused_tensors(const graph& g) {
  std::vector<bool> named(g.tensors.size());
  for (const op& o : g.ops) {
    for (const auto* operands : {&o.in, &o.out}) {
      for (const tensor_id id : *operands) named[id] = true;
    }
  }
  graph result{g.name, {}, g.ops, g.arithmetic};
  std::vector<tensor_id> renamed(g.tensors.size());
  for (std::size_t id = 0; id < named.size(); ++id) {
    renamed[id] = static_cast<tensor_id>(result.tensors.size());
    if (named[id]) result.tensors.push_back(g.tensors[id]);
  }
  for (op& o : result.ops) {
    for (auto* operands : {&o.in, &o.out}) {
      for (tensor_id& id : *operands) id = renamed[id];
    }
  }
  return result;
}

}  // namespace um
