// Predicts which nodes of a graph Inductor fuses into one kernel. A simplified copy of its rules
// (torch/_inductor: ir.py realize and mark_reuse, scheduler.py can_fuse).
#pragma once

#include <vector>

#include "planners/torch_joins.hpp"

namespace um {

// A library call, or several nodes fused into one kernel. `reads` and `writes`: owners of memory,
// without those whose value stays in the kernel.
struct torch_kernel {
  std::vector<torch_id> members, reads, writes;
  std::vector<torch_id> shared_reads;  // that several members read: Inductor does not overwrite these
  bool is_library = false, is_placed = false;
  bool runs_early = false;  // it runs before its place in the order, since an earlier kernel needs it
};

// The kernels of one graph. Buffers are reused for the next graph.
class torch_kernels {
 public:
  explicit torch_kernels(const torch_orders& orders);

  // Fuses the nodes of a graph and orders the kernels as Inductor does: a kernel runs as soon as one of its
  // nodes may, after the kernels whose results it reads.
  void fuse(const std::vector<torch_id>& order, bool backward);
  std::size_t count() const { return kernel_order_.size(); }
  const torch_kernel& kernel(std::size_t at) const { return kernels_[kernel_order_[at]]; }
  // Owners of what a member of a kernel reads, including results of other members.
  const std::vector<torch_id>& reads_of(torch_id member) const { return reads_[member]; }
  // Those of them of which it reads other elements than those that it writes.
  const std::vector<torch_id>& shifted_reads_of(torch_id member) const { return shifted_[member]; }
  // Whether the graph of the last fuse() contains v.
  bool runs(torch_id v) const { return runs_[v]; }
  // Gradients of the last fuse() that Inductor must be told to store instead of recomputing.
  const std::vector<torch_id>& gradients_to_store() const { return gradients_to_store_; }
  // Whether the memory that v owns is needed after the graph.
  bool is_kept(torch_id v, bool backward) const;

 private:
  bool is_never_fused(const torch_node& node) const;
  void find_reads(torch_id v);
  bool is_stored(torch_id v) const;
  bool should_store_gradient(torch_id v) const;
  std::size_t count_fused_readers(torch_id v) const;
  bool can_fuse(torch_id a, torch_id b) const;
  void fuse_along_reads(const std::vector<torch_id>& order);
  void fuse_independent_readers(const std::vector<torch_id>& order);
  void collect_kernels(const std::vector<torch_id>& order);
  void collect_writes();
  torch_kernel& new_kernel(bool is_library);
  void place_kernel(std::size_t k, bool runs_early);

  const torch_orders& orders_;
  const torch_dataflow& flow_;
  bool backward_ = false;
  std::vector<char> runs_, stored_, read_outside_;  // per node
  std::vector<std::vector<torch_id>> reads_,
      shifted_;  // owners of what a node reads, itself or through nodes inlined in it
  std::vector<int> inlined_ops_, library_depth_;  // per node: inlined operations; library calls before it
  fusion_groups groups_;
  std::vector<torch_id> last_reader_;
  std::vector<std::size_t> kernel_of_;  // per node
  std::vector<torch_kernel> kernels_;   // only the first kernel_count_ belong to the current graph
  std::size_t kernel_count_ = 0;
  std::vector<std::size_t> kernel_order_;  // indices into kernels_
  std::vector<torch_id> gradients_to_store_;
};

}  // namespace um
