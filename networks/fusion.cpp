#include <optional>
#include <vector>

#include "networks/passes.hpp"

namespace um {
namespace {

// Works on a copy in which tensors and operators keep their index; removed ones are dropped at the end.
class operator_fuser {
 public:
  explicit operator_fuser(const graph& g)
      : graph_(g), removed_(g.ops.size()), writer_(g.tensors.size()), readers_(g.tensors.size()) {
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
      for (const tensor_id id : g.ops[i].in) readers_[id].push_back(i);
      for (const tensor_id id : g.ops[i].out) writer_[id] = i;
    }
  }

  graph run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (removed_[i]) continue;
      op& o = graph_.ops[i];
      std::visit(overloaded{[&](convolution& what) {
                              if (!fuse_pool(o, what)) fuse_relu(o, what);
                            },
                            [&](linear& what) { fuse_relu(o, what); },
                            [&](batch_norm& what) { fuse_residual(i, what); },
                            [&](normalize& what) { fuse_residual(i, what); }, [](auto&) {}},
                 o.attributes.value);
    }
    return without_removed();
  }

 private:
  // The only reader of a tensor if it is an operator of kind `Kind`; otherwise nullptr.
  template <class Kind>
  op* sole_reader(tensor_id what) {
    if (readers_[what].size() != 1 || graph_.tensors[what].role != role::activation) return nullptr;
    op& reader = graph_.ops[readers_[what][0]];
    return has_kind<Kind>(reader) ? &reader : nullptr;
  }

  void remove(const op& o) { removed_[static_cast<std::size_t>(&o - graph_.ops.data())] = true; }

  bool fuse_pool(op& o, const convolution& what) {
    if (what.relu || o.in.size() < 3) return false;
    op* const rectifier = sole_reader<relu>(o.out[0]);
    if (rectifier == nullptr || std::get<relu>(rectifier->attributes.value).relu6) return false;
    op* const pool = sole_reader<max_pool>(rectifier->out[0]);
    if (pool == nullptr || std::get<max_pool>(pool->attributes.value).relu) return false;
    std::get<max_pool>(pool->attributes.value).relu = true;
    pool->in = {o.out[0], o.in[2]};
    o.in.pop_back();
    remove(*rectifier);
    return true;
  }

  void fuse_relu(op& o, auto& what) {
    if (what.relu) return;
    op* const rectifier = sole_reader<relu>(o.out[0]);
    if (rectifier == nullptr) return;
    if constexpr (requires { what.relu6; }) {
      what.relu6 = std::get<relu>(rectifier->attributes.value).relu6;
    } else if (std::get<relu>(rectifier->attributes.value).relu6) {
      return;
    }
    what.relu = true;
    o.out[0] = rectifier->out[0];
    remove(*rectifier);
  }

  void fuse_residual(std::size_t i, auto& what) {
    op& o = graph_.ops[i];
    if (what.relu) return;
    if (op* const sum = sole_reader<add>(o.out[0])) {
      const tensor_id other = sum->in[0] == o.out[0] ? sum->in[1] : sum->in[0];
      const bool there = !writer_[other] || *writer_[other] < i;
      if (!there) return;
      o.in.push_back(other);
      o.out[0] = sum->out[0];
      remove(*sum);
    }
    fuse_relu(o, what);
  }

  graph without_removed() const {
    graph result{graph_.name, graph_.tensors, {}, graph_.arithmetic};
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!removed_[i]) result.ops.push_back(graph_.ops[i]);
    }
    return without_unused_tensors(result);
  }

  graph graph_;
  std::vector<bool> removed_;
  std::vector<std::optional<std::size_t>>
      writer_;  // per tensor: the operator that writes it; nothing: an input
  std::vector<std::vector<std::size_t>>
      readers_;  // per tensor: the operators that read it, one entry per operand
};

}  // namespace

graph fuse(const graph& g) {
  return operator_fuser(g).run();
}

}  // namespace um
