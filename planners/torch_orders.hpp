// The nodes that PyTorch runs in the forward and in the backward graph for a choice of saved tensors.
#pragma once

#include <vector>

#include "planners/torch_step.hpp"

namespace um {

// Which nodes share memory and which read it. It does not depend on what is saved, offloaded or recomputed.
struct torch_dataflow {
  explicit torch_dataflow(const torch_step& step);

  const torch_node& at(torch_id v) const { return step.nodes[v]; }
  // Bytes that PyTorch's caching allocator reserves for the memory of a node: a multiple of 512.
  std::int64_t reserved_bytes(torch_id owner) const { return (at(owner).bytes + 511) / 512 * 512; }
  // The node that writes the memory that `owner` owns.
  torch_id producer(torch_id owner) const {
    return at(owner).kind == torch_kind::item ? at(owner).inputs[0] : owner;
  }

  const torch_step& step;
  std::vector<torch_id> memory_owner;          // per node: the node that owns its memory
  std::vector<torch_id> computed;              // nodes that are neither views nor inputs
  std::vector<std::vector<torch_id>> sources;  // per computed node: owners of what it reads
  std::vector<std::vector<torch_id>> readers;  // per owner: the nodes, without views, that read its memory
  std::vector<std::vector<torch_id>> items;    // per node with several results: the nodes of its results
  std::vector<char> is_forward_result,
      is_backward_result;       // per owner: it or a view of it is a result of that graph
  torch_id first_backward = 0;  // the first node that reads an incoming gradient
};

// How the backward graph gets a tensor that it needs.
enum class torch_fate : char { recomputed, saved, offloaded };

// A saved tensor that is on the host between the passes. The forward graph waits for its copy and frees it
// after node `freed_after` (no_node: at its end). The backward graph begins to copy it back before node
// `copied_back_before`.
struct torch_offload {
  torch_id tensor = no_node, freed_after = no_node, copied_back_before = no_node;
};

// The orders in which both graphs run their nodes, for one choice of fates. `used_saved`: saved tensors that
// the backward graph reads, including offloaded ones.
struct torch_orders {
  explicit torch_orders(const torch_dataflow& dataflow);
  void set_fates(const std::vector<torch_fate>& fates);

  const torch_dataflow& dataflow;
  std::vector<char> is_saved, is_offloaded;  // per node
  std::vector<torch_id> used_saved, forward, backward;

 private:
  bool runs_in_backward(torch_id v) const;
  void find_needed(const std::vector<torch_fate>& fates);
  void order_backward();
  void order_forward();

  std::vector<char> needed_,
      visited_;  // per node: whether the backward graph needs it; whether the search has reached it
  std::vector<torch_id> worklist_;
};

}  // namespace um
