// Which nodes of a graph share a kernel, as Inductor decides (torch/_inductor: ir.py realize and
// mark_reuse, scheduler.py can_fuse), simplified.
#pragma once

#include <vector>

#include "planners/torch_joins.hpp"

namespace um {

// A library call, or nodes fused into one. Reads and writes are roots that lie in memory.
struct torch_kernel {
  std::vector<torch_id> members, reads, writes;
  std::vector<torch_id> read_often;  // read by several members: Inductor does not write a result over these
  bool library = false, placed = false;
  bool early =
      false;  // it runs before its place among the nodes, since a kernel with an earlier node needs it
};

// The kernels of one graph. Memory is kept from one graph to the next.
class torch_kernels {
 public:
  explicit torch_kernels(const torch_orders& orders);

  // In the order in which Inductor runs them: a kernel as soon as one of its nodes may, behind those that it
  // reads.
  void fuse(const std::vector<torch_id>& order, bool backward);
  std::size_t count() const { return placed_.size(); }
  const torch_kernel& kernel(std::size_t at) const { return found_[placed_[at]]; }
  // Roots that a member of a kernel reads, those of other members among them.
  const std::vector<torch_id>& reads_of(torch_id member) const { return reads_[member]; }
  // Those of them that it reads elsewhere than where it writes.
  const std::vector<torch_id>& shifted_reads_of(torch_id member) const { return shifted_[member]; }
  // Whether the graph of the last fuse() ran v.
  bool runs(torch_id v) const { return runs_[v]; }
  // Gradients of the last fuse() that Inductor must be told to store: each reader would compute them again.
  const std::vector<torch_id>& gradients_to_store() const { return gradients_to_store_; }
  // Whether what lies in a root is wanted after the graph.
  bool is_kept(torch_id root, bool backward) const;

 private:
  bool runs_alone(const torch_node& node) const;
  void read_inputs(torch_id v);
  bool is_stored(torch_id v) const;
  bool saves_memory(torch_id v) const;
  std::size_t fused_readers(torch_id v) const;
  bool can_join(torch_id a, torch_id b) const;
  void join_all(const std::vector<torch_id>& order);
  void join_independent(const std::vector<torch_id>& order);
  void collect(const std::vector<torch_id>& order);
  void collect_writes();
  torch_kernel& new_kernel(bool library);
  void place_kernel(std::size_t k, bool early);

  const torch_orders& orders_;
  const torch_wiring& wiring_;
  bool backward_ = false;
  std::vector<char> runs_, stored_, read_elsewhere_;
  std::vector<std::vector<torch_id>> reads_,
      shifted_;                          // roots that a node reads, through the nodes inlined in it
  std::vector<int> operations_, depth_;  // per node: inlined in it; library calls on the path to it
  torch_joins joins_;
  std::vector<torch_id> last_reader_;
  std::vector<std::size_t> kernel_of_;
  std::vector<torch_kernel> found_;  // the first found_count_ are of the last graph
  std::size_t found_count_ = 0;
  std::vector<std::size_t> placed_;
  std::vector<torch_id> gradients_to_store_;
};

}  // namespace um
