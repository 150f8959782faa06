#include "planners/torch_kernels.hpp"

#include <algorithm>
#include <utility>

namespace um {
namespace {

// torch/_inductor/config.py: realize_reads_threshold, realize_opcount_threshold,
// realize_acc_reads_threshold.
constexpr std::size_t max_reads_if_shared = 4, max_reads = 8;
constexpr int max_ops_if_shared = 30;
constexpr std::size_t no_kernel = SIZE_MAX, read_by_library = SIZE_MAX;

bool is_fusible(torch_kind of) {
  return of == torch_kind::pointwise || of == torch_kind::reduction || of == torch_kind::far_reduction;
}

bool contains(const std::vector<torch_id>& among, torch_id id) {
  return std::ranges::find(among, id) != among.end();
}

void append_new(std::vector<torch_id>& to, torch_id id) {
  if (!contains(to, id)) to.push_back(id);
}

// Whether overlapping windows, such as those of a max pool, read v's elements several times.
bool is_read_by_windows(const torch_dataflow& dataflow, const std::vector<char>& runs, torch_id v) {
  return std::ranges::any_of(dataflow.readers[v], [&](torch_id w) {
    return runs[w] && dataflow.at(w).kind == torch_kind::reduction &&
           std::ranges::any_of(dataflow.at(w).shifted_inputs,
                               [&](torch_id u) { return dataflow.memory_owner[u] == v; });
  });
}

}  // namespace

torch_kernels::torch_kernels(const torch_orders& orders)
    : orders_(orders), flow_(orders.dataflow), groups_(orders.dataflow.memory_owner.size()) {
  const std::size_t n = flow_.memory_owner.size();
  for (auto* flags : {&runs_, &stored_, &read_outside_}) flags->resize(n);
  last_reader_.resize(n, no_node);
  kernel_of_.resize(n);
  for (auto* owners : {&reads_, &shifted_}) owners->resize(n);
  inlined_ops_.resize(n);
  library_depth_.resize(n);
}

void torch_kernels::fuse(const std::vector<torch_id>& order, bool backward) {
  backward_ = backward;
  gradients_to_store_.clear();
  std::ranges::fill(runs_, 0);
  for (const torch_id v : order) runs_[v] = 1;
  std::size_t place = 0;
  for (const torch_id v : order) {
    groups_.make_group(v, place);
    kernel_of_[v] = no_kernel;
    stored_[v] = read_outside_[v] = 0;
    if (flow_.at(v).kind == torch_kind::item) continue;
    find_reads(v);
    stored_[v] = is_stored(v);
    if (!stored_[v] && should_store_gradient(v)) {
      stored_[v] = true;
      gradients_to_store_.push_back(v);
    }
    place += stored_[v];
  }
  if (flow_.step.fuses_kernels) {
    fuse_along_reads(order);
    fuse_independent_readers(order);
  }
  collect_kernels(order);
  kernel_order_.clear();
  for (std::size_t k = 0; k < kernel_count_; ++k) place_kernel(k, false);
}

bool torch_kernels::is_kept(torch_id v, bool backward) const {
  return backward ? flow_.is_backward_result[v] : flow_.is_forward_result[v] || orders_.is_saved[v];
}

bool torch_kernels::is_never_fused(const torch_node& node) const {
  return node.kind == torch_kind::kernel || !flow_.step.fuses_kernels;
}

void torch_kernels::find_reads(torch_id v) {
  reads_[v].clear();
  shifted_[v].clear();
  inlined_ops_[v] = 1;
  int deepest = 0;
  const auto read = [&](torch_id b, bool shifted) {
    append_new(reads_[v], b);
    if (shifted) append_new(shifted_[v], b);
  };
  for (const torch_id b : flow_.sources[v]) {
    const torch_id producer = flow_.producer(b);
    const bool is_shifted = std::ranges::any_of(flow_.at(v).shifted_inputs,
                                                [&](torch_id u) { return flow_.memory_owner[u] == b; });
    if (!runs_[b]) {
      read(b, is_shifted);
      continue;
    }
    const torch_kind kind = flow_.at(producer).kind;
    deepest = std::max(deepest, library_depth_[producer] + (kind == torch_kind::far_reduction ? 1 : 0));
    if (stored_[producer]) {
      read(b, is_shifted);
      continue;
    }
    inlined_ops_[v] += inlined_ops_[producer];
    for (const torch_id r : reads_[producer]) read(r, is_shifted || contains(shifted_[producer], r));
  }
  library_depth_[v] = is_never_fused(flow_.at(v)) ? deepest + 1 : deepest;
}

// Whether a node's value gets memory unless one kernel contains all its readers.
bool torch_kernels::is_stored(torch_id v) const {
  const torch_node& node = flow_.at(v);
  if (node.kind != torch_kind::pointwise || is_never_fused(node) || is_kept(v, backward_)) return true;
  const std::size_t users = count_fused_readers(v), reads = reads_[v].size();
  if (users == read_by_library || (reads > 1 && is_read_by_windows(flow_, runs_, v))) return true;
  if (node.is_widening) return false;
  return reads > max_reads ||
         (users > 1 && (reads > max_reads_if_shared || inlined_ops_[v] > max_ops_if_shared));
}

// Whether a gradient takes clearly less memory than its inputs, such as a sum of two gradients.
bool torch_kernels::should_store_gradient(torch_id v) const {
  const torch_node& node = flow_.at(v);
  const bool may = flow_.step.stores_gradients && backward_ && !node.can_run_forward && !node.is_widening;
  if (!may || count_fused_readers(v) < 2) return false;
  std::int64_t read = 0;
  for (const torch_id b : reads_[v]) read += flow_.at(b).is_resident ? 0 : flow_.at(b).bytes;
  return 2 * read >= 3 * node.bytes;
}

// Counts readers of v in generated kernels, also through widening nodes; or returns `read_by_library`.
std::size_t torch_kernels::count_fused_readers(torch_id v) const {
  std::size_t count = 0;
  for (const torch_id w : flow_.readers[v]) {
    if (!runs_[w]) continue;
    if (!is_fusible(flow_.at(w).kind)) return read_by_library;
    const bool passes = flow_.at(w).is_widening && !is_kept(w, backward_);
    const std::size_t behind = passes ? count_fused_readers(w) : 1;
    count += behind == read_by_library ? 1 : behind;
  }
  return count;
}

// Whether both nodes loop over the same elements, with no library call between them.
bool torch_kernels::can_fuse(torch_id a, torch_id b) const {
  return is_fusible(flow_.at(a).kind) && library_depth_[a] == library_depth_[b] &&
         flow_.at(a).elements == flow_.at(b).elements;
}

void torch_kernels::fuse_along_reads(const std::vector<torch_id>& order) {
  for (const torch_id v : order) {
    for (const torch_id b : reads_[v]) last_reader_[b] = no_node;
  }
  for (const torch_id v : order) {
    if (!stored_[v] || !is_fusible(flow_.at(v).kind)) continue;
    for (const torch_id b : reads_[v]) {
      const torch_id producer = flow_.producer(b);
      if (runs_[b] && flow_.at(producer).kind != torch_kind::far_reduction && can_fuse(producer, v))
        groups_.merge(producer, v);
      if (last_reader_[b] != no_node && can_fuse(last_reader_[b], v) && groups_.are_near(last_reader_[b], v))
        groups_.merge(last_reader_[b], v);
      last_reader_[b] = v;
    }
  }
}

// Fuses readers of the same memory that do not depend on each other, even if a library call precedes only one
// of them. An example is a recomputed node and the gradient that reads the same tensor.
void torch_kernels::fuse_independent_readers(const std::vector<torch_id>& order) {
  for (const torch_id v : order) {
    for (const torch_id b : reads_[v]) last_reader_[b] = no_node;
  }
  const auto makers_of = [&](torch_id v) {
    std::vector<torch_id> makers;
    for (const torch_id b : reads_[v]) {
      if (runs_[b]) makers.push_back(flow_.producer(b));
    }
    return makers;
  };
  for (const torch_id v : order) {
    if (!stored_[v] || !is_fusible(flow_.at(v).kind)) continue;
    for (const torch_id b : reads_[v]) {
      const torch_id u = last_reader_[b];
      last_reader_[b] = v;
      if (u == no_node || groups_.representative(u) == groups_.representative(v)) continue;
      const std::int64_t elements = flow_.at(v).elements;  // Inductor fuses no readers of parts of b
      if (flow_.at(u).elements != elements || flow_.at(b).elements != elements) continue;
      if (groups_.are_near(u, v) && !groups_.depends_on(u, v, makers_of) &&
          !groups_.depends_on(v, u, makers_of))
        groups_.merge(u, v);
    }
  }
}

void torch_kernels::collect_kernels(const std::vector<torch_id>& order) {
  kernel_count_ = 0;
  for (const torch_id v : order) {
    if (!stored_[v]) continue;
    std::size_t& k = kernel_of_[groups_.representative(v)];
    if (k == no_kernel) {
      k = kernel_count_;
      new_kernel(flow_.at(v).kind == torch_kind::kernel);
    }
    kernel_of_[v] = k;
    kernels_[k].members.push_back(v);
  }
  for (std::size_t k = 0; k < kernel_count_; ++k) {
    for (const torch_id v : kernels_[k].members) {
      for (const torch_id b : reads_[v]) {
        const torch_id producer = flow_.producer(b);
        if (runs_[b] && kernel_of_[producer] == k) continue;
        if (contains(kernels_[k].reads, b)) append_new(kernels_[k].shared_reads, b);
        append_new(kernels_[k].reads, b);
        read_outside_[b] = 1;
      }
    }
  }
  collect_writes();
}

// A library call writes all its results, whether they are read or not.
void torch_kernels::collect_writes() {
  for (std::size_t k = 0; k < kernel_count_; ++k) {
    torch_kernel& kernel = kernels_[k];
    const auto write = [&](torch_id b) {
      if (flow_.at(b).bytes > 0 && (kernel.is_library || is_kept(b, backward_) || read_outside_[b]))
        kernel.writes.push_back(b);
    };
    for (const torch_id v : kernel.members) {
      write(v);
      for (const torch_id each : flow_.items[v]) {
        if (runs_[each]) write(each);
      }
    }
  }
}

torch_kernel& torch_kernels::new_kernel(bool is_library) {
  if (kernel_count_ == kernels_.size()) kernels_.emplace_back();
  torch_kernel& kernel = kernels_[kernel_count_++];
  for (auto* ids : {&kernel.members, &kernel.reads, &kernel.writes, &kernel.shared_reads}) ids->clear();
  kernel.is_library = is_library;
  kernel.is_placed = false;
  return kernel;
}

void torch_kernels::place_kernel(std::size_t k, bool runs_early) {
  if (std::exchange(kernels_[k].is_placed, true)) return;
  kernels_[k].runs_early = runs_early;
  for (const torch_id b : kernels_[k].reads) {
    const torch_id producer = flow_.producer(b);
    if (runs_[b] && kernel_of_[producer] != no_kernel) place_kernel(kernel_of_[producer], true);
  }
  kernel_order_.push_back(k);
}

}  // namespace um
