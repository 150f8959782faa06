// What PyTorch runs in the forward and in the backward graph once it is known what is saved.
#pragma once

#include <vector>

#include "planners/torch_step.hpp"

namespace um {

// Which nodes share memory and which read it: the same whatever is kept, copied or recomputed.
struct torch_wiring {
  explicit torch_wiring(const torch_step& step);

  const torch_node& at(torch_id v) const { return step.nodes[v]; }
  // What the caching allocator gives a root: whole grains of 512 bytes.
  std::int64_t allocated(torch_id root_id) const { return (at(root_id).bytes + 511) / 512 * 512; }
  // The node that writes the memory of a root.
  torch_id maker(torch_id root_id) const {
    return at(root_id).kind == torch_kind::item ? at(root_id).inputs[0] : root_id;
  }

  const torch_step& step;
  std::vector<torch_id> root;                         // per node: the node that owns its memory
  std::vector<torch_id> computed;                     // nodes that are no views and no inputs
  std::vector<std::vector<torch_id>> sources;         // roots that a computed node reads
  std::vector<std::vector<torch_id>> readers;         // nodes, no views, that read a root's memory
  std::vector<std::vector<torch_id>> items;           // per node with several results: their nodes
  std::vector<char> forward_result, backward_result;  // per root: it or a view of it is a result
  torch_id first_backward = 0;                        // the first node that reads an incoming gradient
};

// What becomes of a tensor that the backward graph needs.
enum class torch_fate : char { again, saved, offloaded };

// A saved tensor that is not on the device in between. The forward graph waits for its copy behind the node
// `gone_after` (no_node: at its end); the backward graph begins to copy it back before the node
// `back_before`.
struct torch_offload {
  torch_id tensor = no_node, gone_after = no_node, back_before = no_node;
};

// One choice. `used`: saved tensors that the backward graph reads, offloaded ones among them.
struct torch_orders {
  explicit torch_orders(const torch_wiring& wiring);
  void choose(const std::vector<torch_fate>& fates);

  const torch_wiring& wiring;
  std::vector<char> is_saved, is_offloaded;
  std::vector<torch_id> used, forward, backward;

 private:
  bool runs_backward(torch_id v) const;
  void need_backward(const std::vector<torch_fate>& fates);
  void order_backward();
  void order_forward();

  std::vector<char> needed_, seen_;
  std::vector<torch_id> open_;
};

}  // namespace um
