#include "planners/torch_kernels.hpp"

#include <algorithm>
#include <utility>

namespace um {
namespace {

// torch/_inductor/config.py: realize_reads_threshold, realize_opcount_threshold,
// realize_acc_reads_threshold.
constexpr std::size_t most_reads_if_shared = 4, most_reads = 8;
constexpr int most_operations_if_shared = 30;
constexpr std::size_t no_kernel = SIZE_MAX, read_by_library = SIZE_MAX;

bool fusible(torch_kind of) {
  return of == torch_kind::pointwise || of == torch_kind::reduction || of == torch_kind::far_reduction;
}

bool has(const std::vector<torch_id>& among, torch_id id) {
  return std::ranges::find(among, id) != among.end();
}

void append_new(std::vector<torch_id>& to, torch_id id) {
  if (!has(to, id)) to.push_back(id);
}

// Whether windows, such as those of a maximum, read v: each of its elements several times.
bool is_read_by_windows(const torch_wiring& wiring, const std::vector<char>& runs, torch_id v) {
  return std::ranges::any_of(wiring.readers[v], [&](torch_id w) {
    return runs[w] && wiring.at(w).kind == torch_kind::reduction &&
           std::ranges::any_of(wiring.at(w).shifted, [&](torch_id u) { return wiring.root[u] == v; });
  });
}

}  // namespace

torch_kernels::torch_kernels(const torch_orders& orders)
    : orders_(orders), wiring_(orders.wiring), joins_(orders.wiring.root.size()) {
  const std::size_t n = wiring_.root.size();
  for (auto* flags : {&runs_, &stored_, &read_elsewhere_}) flags->resize(n);
  last_reader_.resize(n, no_node);
  kernel_of_.resize(n);
  for (auto* roots : {&reads_, &shifted_}) roots->resize(n);
  operations_.resize(n);
  depth_.resize(n);
}

void torch_kernels::fuse(const std::vector<torch_id>& order, bool backward) {
  backward_ = backward;
  gradients_to_store_.clear();
  std::ranges::fill(runs_, 0);
  for (const torch_id v : order) runs_[v] = 1;
  std::size_t place = 0;
  for (const torch_id v : order) {
    joins_.part(v, place);
    kernel_of_[v] = no_kernel;
    stored_[v] = read_elsewhere_[v] = 0;
    if (wiring_.at(v).kind == torch_kind::item) continue;
    read_inputs(v);
    stored_[v] = is_stored(v);
    if (!stored_[v] && saves_memory(v)) {
      stored_[v] = true;
      gradients_to_store_.push_back(v);
    }
    place += stored_[v];
  }
  if (wiring_.step.fused) {
    join_all(order);
    join_independent(order);
  }
  collect(order);
  placed_.clear();
  for (std::size_t k = 0; k < found_count_; ++k) place_kernel(k, false);
}

bool torch_kernels::is_kept(torch_id root, bool backward) const {
  return backward ? wiring_.backward_result[root] : wiring_.forward_result[root] || orders_.is_saved[root];
}

bool torch_kernels::runs_alone(const torch_node& node) const {
  return node.kind == torch_kind::kernel || !wiring_.step.fused;
}

void torch_kernels::read_inputs(torch_id v) {
  reads_[v].clear();
  shifted_[v].clear();
  operations_[v] = 1;
  int deepest = 0;
  const auto read = [&](torch_id b, bool shifted) {
    append_new(reads_[v], b);
    if (shifted) append_new(shifted_[v], b);
  };
  for (const torch_id b : wiring_.sources[v]) {
    const torch_id maker = wiring_.maker(b);
    const bool is_shifted =
        std::ranges::any_of(wiring_.at(v).shifted, [&](torch_id u) { return wiring_.root[u] == b; });
    if (!runs_[b]) {
      read(b, is_shifted);
      continue;
    }
    const torch_kind kind = wiring_.at(maker).kind;
    deepest = std::max(deepest, depth_[maker] + (kind == torch_kind::far_reduction ? 1 : 0));
    if (stored_[maker]) {
      read(b, is_shifted);
      continue;
    }
    operations_[v] += operations_[maker];
    for (const torch_id r : reads_[maker]) read(r, is_shifted || has(shifted_[maker], r));
  }
  depth_[v] = runs_alone(wiring_.at(v)) ? deepest + 1 : deepest;
}

// Whether a node's value gets memory, if no kernel holds all that read it.
bool torch_kernels::is_stored(torch_id v) const {
  const torch_node& node = wiring_.at(v);
  if (node.kind != torch_kind::pointwise || runs_alone(node) || is_kept(v, backward_)) return true;
  const std::size_t users = fused_readers(v), reads = reads_[v].size();
  if (users == read_by_library || (reads > 1 && is_read_by_windows(wiring_, runs_, v))) return true;
  if (node.widens) return false;
  return reads > most_reads ||
         (users > 1 && (reads > most_reads_if_shared || operations_[v] > most_operations_if_shared));
}

// Whether a gradient takes clearly less memory than what it is computed from, such as the sum of those of
// two branches.
bool torch_kernels::saves_memory(torch_id v) const {
  const torch_node& node = wiring_.at(v);
  const bool may = wiring_.step.stores_gradients && backward_ && !node.forward && !node.widens;
  if (!may || fused_readers(v) < 2) return false;
  std::int64_t read = 0;
  for (const torch_id b : reads_[v]) read += wiring_.at(b).resident ? 0 : wiring_.at(b).bytes;
  return 2 * read >= 3 * node.bytes;
}

// Nodes that read v in generated kernels, behind those that only widen it; or `read_by_library`.
std::size_t torch_kernels::fused_readers(torch_id v) const {
  std::size_t count = 0;
  for (const torch_id w : wiring_.readers[v]) {
    if (!runs_[w]) continue;
    if (!fusible(wiring_.at(w).kind)) return read_by_library;
    const bool passes = wiring_.at(w).widens && !is_kept(w, backward_);
    const std::size_t behind = passes ? fused_readers(w) : 1;
    count += behind == read_by_library ? 1 : behind;
  }
  return count;
}

// Nodes that go over the same elements, with no library call in between.
bool torch_kernels::can_join(torch_id a, torch_id b) const {
  return fusible(wiring_.at(a).kind) && depth_[a] == depth_[b] &&
         wiring_.at(a).elements == wiring_.at(b).elements;
}

void torch_kernels::join_all(const std::vector<torch_id>& order) {
  for (const torch_id v : order) {
    for (const torch_id b : reads_[v]) last_reader_[b] = no_node;
  }
  for (const torch_id v : order) {
    if (!stored_[v] || !fusible(wiring_.at(v).kind)) continue;
    for (const torch_id b : reads_[v]) {
      const torch_id maker = wiring_.maker(b);
      if (runs_[b] && wiring_.at(maker).kind != torch_kind::far_reduction && can_join(maker, v))
        joins_.join(maker, v);
      if (last_reader_[b] != no_node && can_join(last_reader_[b], v) && joins_.are_near(last_reader_[b], v))
        joins_.join(last_reader_[b], v);
      last_reader_[b] = v;
    }
  }
}

// Readers of the same memory, none of which needs the other, although library calls are on the way to one:
// what is computed again and the gradient that reads the same tensor.
void torch_kernels::join_independent(const std::vector<torch_id>& order) {
  for (const torch_id v : order) {
    for (const torch_id b : reads_[v]) last_reader_[b] = no_node;
  }
  const auto makers_of = [&](torch_id v) {
    std::vector<torch_id> makers;
    for (const torch_id b : reads_[v]) {
      if (runs_[b]) makers.push_back(wiring_.maker(b));
    }
    return makers;
  };
  for (const torch_id v : order) {
    if (!stored_[v] || !fusible(wiring_.at(v).kind)) continue;
    for (const torch_id b : reads_[v]) {
      const torch_id u = last_reader_[b];
      last_reader_[b] = v;
      if (u == no_node || joins_.representative(u) == joins_.representative(v)) continue;
      const std::int64_t elements =
          wiring_.at(v).elements;  // all of b: Inductor joins no readers of its parts
      if (wiring_.at(u).elements != elements || wiring_.at(b).elements != elements) continue;
      if (joins_.are_near(u, v) && !joins_.needs(u, v, makers_of) && !joins_.needs(v, u, makers_of))
        joins_.join(u, v);
    }
  }
}

void torch_kernels::collect(const std::vector<torch_id>& order) {
  found_count_ = 0;
  for (const torch_id v : order) {
    if (!stored_[v]) continue;
    std::size_t& k = kernel_of_[joins_.representative(v)];
    if (k == no_kernel) {
      k = found_count_;
      new_kernel(wiring_.at(v).kind == torch_kind::kernel);
    }
    kernel_of_[v] = k;
    found_[k].members.push_back(v);
  }
  for (std::size_t k = 0; k < found_count_; ++k) {
    for (const torch_id v : found_[k].members) {
      for (const torch_id b : reads_[v]) {
        const torch_id maker = wiring_.maker(b);
        if (runs_[b] && kernel_of_[maker] == k) continue;
        if (has(found_[k].reads, b)) append_new(found_[k].read_often, b);
        append_new(found_[k].reads, b);
        read_elsewhere_[b] = 1;
      }
    }
  }
  collect_writes();
}

// A library's results are written whether they are read or not.
void torch_kernels::collect_writes() {
  for (std::size_t k = 0; k < found_count_; ++k) {
    torch_kernel& kernel = found_[k];
    const auto write = [&](torch_id b) {
      if (wiring_.at(b).bytes > 0 && (kernel.library || is_kept(b, backward_) || read_elsewhere_[b]))
        kernel.writes.push_back(b);
    };
    for (const torch_id v : kernel.members) {
      write(v);
      for (const torch_id each : wiring_.items[v]) {
        if (runs_[each]) write(each);
      }
    }
  }
}

torch_kernel& torch_kernels::new_kernel(bool library) {
  if (found_count_ == found_.size()) found_.emplace_back();
  torch_kernel& kernel = found_[found_count_++];
  for (auto* ids : {&kernel.members, &kernel.reads, &kernel.writes, &kernel.read_often}) ids->clear();
  kernel.library = library;
  kernel.placed = false;
  return kernel;
}

void torch_kernels::place_kernel(std::size_t k, bool early) {
  if (std::exchange(found_[k].placed, true)) return;
  found_[k].early = early;
  for (const torch_id b : found_[k].reads) {
    const torch_id maker = wiring_.maker(b);
    if (runs_[b] && kernel_of_[maker] != no_kernel) place_kernel(kernel_of_[maker], true);
  }
  placed_.push_back(k);
}

}  // namespace um
