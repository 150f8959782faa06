#include "planners/torch_target.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace um {
namespace {

// Inductor's limits, torch/_inductor/config.py: realize_reads_threshold, realize_acc_reads_threshold
// and max_fusion_size.
constexpr std::size_t reads_if_shared = 4, most_reads = 8;
constexpr int most_fused = 64;

bool fusible(torch_kind kind) {
  return kind == torch_kind::pointwise || kind == torch_kind::reduction || kind == torch_kind::far_reduction;
}

// A kernel that is launched: a library call, or nodes fused into one.
struct launched {
  std::vector<int> members;
  std::vector<int> reads, writes;  // buffers, by the node that makes them
  bool library = false, placed = false;
};

}  // namespace

struct torch_model::state {
  const torch_step& step;
  std::int64_t budget;
  std::vector<int> root;                  // whose memory a node's is
  std::vector<std::vector<int>> readers;  // nodes, no views, that read a root's memory
  std::vector<std::vector<int>> items;    // of nodes with several results
  std::vector<int> backward_order, forward_order;
  int first_backward = 0;

  // Of the last evaluation.
  std::vector<char> available, backward_needs, in_pass, is_saved;
  std::vector<int> used;                // saved tensors that the backward graph reads
  std::vector<std::vector<int>> reads;  // buffers that a fusible node reads, through those inlined
  std::vector<char> realized;
  std::vector<int> depth, group, group_size, kernel_of, last_reader;
  std::vector<int> last_use;
  std::vector<launched> kernels;
  std::vector<int> placed;
  torch_estimate estimate;

  state(const torch_step& s, std::int64_t limit) : step(s), budget(limit) {
    const auto n = step.nodes.size();
    root.resize(n);
    readers.resize(n);
    items.resize(n);
    for (std::size_t v = 0; v < n; ++v) {
      const auto& node = step.nodes[v];
      root[v] = node.kind == torch_kind::view && !node.inputs.empty()
                    ? root[static_cast<std::size_t>(node.inputs[0])]
                    : static_cast<int>(v);
      if (node.kind == torch_kind::view) continue;
      if (node.kind == torch_kind::item) {
        items[static_cast<std::size_t>(node.inputs[0])].push_back(static_cast<int>(v));
        continue;
      }
      for (const int u : node.inputs) {
        auto& known = readers[static_cast<std::size_t>(root[static_cast<std::size_t>(u)])];
        if (known.empty() || known.back() != static_cast<int>(v)) known.push_back(static_cast<int>(v));
      }
    }
    available.resize(n);
    backward_needs.resize(n);
    in_pass.resize(n);
    is_saved.resize(n);
    reads.resize(n);
    realized.resize(n);
    depth.resize(n);
    group.resize(n);
    group_size.resize(n);
    kernel_of.resize(n);
    last_reader.resize(n);
    last_use.resize(n);
    read_elsewhere.resize(n);
    first_backward = static_cast<int>(n);
    for (std::size_t v = 0; v < n; ++v) {
      for (const int u : step.nodes[v].inputs) {
        const auto& input = step.nodes[static_cast<std::size_t>(u)];
        if (input.kind == torch_kind::input && !input.resident)
          first_backward = std::min(first_backward, static_cast<int>(v));
      }
    }
  }

  const torch_node& at(int v) const { return step.nodes[static_cast<std::size_t>(v)]; }
  int root_of(int v) const { return root[static_cast<std::size_t>(v)]; }

  int find(int v) {
    while (group[static_cast<std::size_t>(v)] != v) {
      auto& up = group[static_cast<std::size_t>(v)];
      up = group[static_cast<std::size_t>(up)];
      v = up;
    }
    return v;
  }
  void unite(int a, int b) {
    a = find(a), b = find(b);
    if (a == b) return;
    auto& size = group_size[static_cast<std::size_t>(a)];
    if (size + group_size[static_cast<std::size_t>(b)] > most_fused) return;
    size += group_size[static_cast<std::size_t>(b)];
    group[static_cast<std::size_t>(b)] = a;
  }

  // What the backward graph runs, given what is saved.
  void need_backward(const std::vector<char>& saved) {
    std::ranges::fill(backward_needs, 0);
    std::ranges::fill(is_saved, 0);
    used.clear();
    std::vector<int> open;
    const auto need = [&](int v) {
      if (backward_needs[static_cast<std::size_t>(v)]) return;
      backward_needs[static_cast<std::size_t>(v)] = 1;
      const auto& node = at(v);
      if (node.kind == torch_kind::input) return;
      const bool savable = node.forward && node.kind != torch_kind::view && node.bytes > 0;
      if (savable && (saved[static_cast<std::size_t>(v)] || !node.repeatable)) {
        is_saved[static_cast<std::size_t>(v)] = 1;
        used.push_back(v);
        return;
      }
      open.push_back(v);
    };
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      if (step.nodes[v].backward_result) need(static_cast<int>(v));
    }
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      for (const int u : at(v).inputs) need(u);
    }
  }

  // PyTorch's reordering_to_mimic_autograd_engine: what is computed again comes right before the
  // first backward node that needs it.
  void order_backward() {
    backward_order.clear();
    auto& inserted = in_pass;
    std::ranges::fill(inserted, 0);
    const auto runs = [&](int v) {
      return backward_needs[static_cast<std::size_t>(v)] && !is_saved[static_cast<std::size_t>(v)] &&
             at(v).kind != torch_kind::input;
    };
    std::vector<int> open, found;
    for (int v = first_backward; v < static_cast<int>(step.nodes.size()); ++v) {
      if (!runs(v) || inserted[static_cast<std::size_t>(v)]) continue;
      open.assign(1, v);
      found.clear();
      while (!open.empty()) {
        const int u = open.back();
        open.pop_back();
        if (!runs(u) || inserted[static_cast<std::size_t>(u)]) continue;
        inserted[static_cast<std::size_t>(u)] = 1;
        found.push_back(u);
        for (const int w : at(u).inputs) open.push_back(w);
      }
      std::ranges::sort(found);
      backward_order.insert(backward_order.end(), found.begin(), found.end());
    }
  }

  void order_forward() {
    forward_order.clear();
    std::ranges::fill(in_pass, 0);
    std::vector<int> open = used;
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      if (step.nodes[v].forward_result) open.push_back(static_cast<int>(v));
    }
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      if (in_pass[static_cast<std::size_t>(v)] || at(v).kind == torch_kind::input) continue;
      in_pass[static_cast<std::size_t>(v)] = 1;
      for (const int u : at(v).inputs) open.push_back(u);
    }
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      if (in_pass[v]) forward_order.push_back(static_cast<int>(v));
    }
  }

  void add_read(std::vector<int>& into, int buffer) const {
    if (std::ranges::find(into, buffer) == into.end()) into.push_back(buffer);
  }

  // Which nodes get memory of their own, and which kernels there are. in_pass: the nodes that run.
  void fuse(const std::vector<int>& order, bool backward) {
    const auto is_result = [&](int v) {
      return backward ? at(v).backward_result : at(v).forward_result || is_saved[static_cast<std::size_t>(v)];
    };
    for (const int v : order) {
      const auto i = static_cast<std::size_t>(v);
      group[i] = v;
      group_size[i] = 1;
      kernel_of[i] = -1;
      realized[i] = 0;
      reads[i].clear();
      int deepest = 0;
      const auto& node = at(v);
      if (node.kind == torch_kind::view) continue;
      if (node.kind == torch_kind::item) {
        depth[i] = depth[static_cast<std::size_t>(node.inputs[0])];
        group[i] = node.inputs[0];
        continue;
      }
      const bool alone = !step.fused || node.kind == torch_kind::kernel;
      for (const int input : node.inputs) {
        const int b = root_of(input);
        const auto j = static_cast<std::size_t>(b);
        const auto& from = at(b);
        const bool runs_here = from.kind != torch_kind::input && in_pass[j];
        if (runs_here && fusible(from.kind) && step.fused && !realized[j] &&
            from.kind == torch_kind::pointwise) {
          for (const int r : reads[j]) add_read(reads[i], r);
          deepest = std::max(deepest, depth[j]);
          continue;
        }
        add_read(reads[i], b);
        if (runs_here) {
          const int maker = from.kind == torch_kind::item ? from.inputs[0] : b;
          const auto m = static_cast<std::size_t>(maker);
          deepest = std::max(deepest, depth[m] + (at(maker).kind == torch_kind::far_reduction ? 1 : 0));
        }
      }
      depth[i] = alone ? deepest + 1 : deepest;
      if (alone || node.kind != torch_kind::pointwise || is_result(v)) {
        realized[i] = 1;
        continue;
      }
      std::size_t fused_users = 0, other_users = 0;
      for (const int w : readers[i]) {
        if (!in_pass[static_cast<std::size_t>(w)]) continue;
        ++(fusible(at(w).kind) ? fused_users : other_users);
      }
      realized[i] = other_users > 0 || (fused_users > 1 && reads[i].size() > reads_if_shared) ||
                    reads[i].size() > most_reads;
    }
    // A result may be a view of a fused node.
    for (const int v : order) {
      if (at(v).kind == torch_kind::view && is_result(v)) {
        const auto j = static_cast<std::size_t>(root_of(v));
        if (in_pass[j]) realized[j] = 1;
      }
    }
    if (step.fused) unite_all(order);
    collect(order, is_result);
  }

  void unite_all(const std::vector<int>& order) {
    for (const int v : order) {
      for (const int b : reads[static_cast<std::size_t>(v)]) last_reader[static_cast<std::size_t>(b)] = -1;
    }
    for (const int v : order) {
      const auto i = static_cast<std::size_t>(v);
      if (!realized[i] || !fusible(at(v).kind)) continue;
      for (const int b : reads[i]) {
        const auto j = static_cast<std::size_t>(b);
        const int maker = at(b).kind == torch_kind::item ? at(b).inputs[0] : b;
        const auto m = static_cast<std::size_t>(maker);
        if (at(maker).kind != torch_kind::input && in_pass[m] && fusible(at(maker).kind) && realized[m] &&
            depth[m] == depth[i] && at(maker).elements == at(v).elements &&
            at(maker).kind != torch_kind::far_reduction) {
          unite(maker, v);
        }
        const int other = last_reader[j];
        if (other >= 0 && depth[static_cast<std::size_t>(other)] == depth[i] &&
            at(other).elements == at(v).elements)
          unite(other, v);
        last_reader[j] = v;
      }
    }
  }

  template <class Result>
  void collect(const std::vector<int>& order, Result is_result) {
    kernels.clear();
    for (const int v : order) {
      const auto i = static_cast<std::size_t>(v);
      if (!realized[i] || at(v).kind == torch_kind::view || at(v).kind == torch_kind::item) continue;
      const int leader = step.fused ? find(v) : v;
      auto& k = kernel_of[static_cast<std::size_t>(leader)];
      if (k < 0) {
        k = static_cast<int>(kernels.size());
        kernels.emplace_back();
        kernels.back().library = at(v).kind == torch_kind::kernel;
      }
      kernel_of[i] = k;
      kernels[static_cast<std::size_t>(k)].members.push_back(v);
    }
    for (const int v : order) {
      if (at(v).kind == torch_kind::item)
        kernel_of[static_cast<std::size_t>(v)] = kernel_of[static_cast<std::size_t>(at(v).inputs[0])];
    }
    for (const int v : order) read_elsewhere[static_cast<std::size_t>(v)] = 0;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      auto& kernel = kernels[k];
      for (const int v : kernel.members) {
        for (const int b : reads[static_cast<std::size_t>(v)]) {
          if (made_by(b, static_cast<int>(k))) continue;
          add_read(kernel.reads, b);
          read_elsewhere[static_cast<std::size_t>(b)] = 1;
        }
      }
    }
    for (auto& kernel : kernels) {
      for (const int v : kernel.members) {
        // A library's results are written whether they are read or not.
        const auto write = [&](int b) {
          const auto j = static_cast<std::size_t>(b);
          if (at(b).bytes > 0 && (kernel.library || is_result(b) || read_elsewhere[j] || result_views[j]))
            kernel.writes.push_back(b);
        };
        write(v);
        for (const int each : items[static_cast<std::size_t>(v)]) {
          if (in_pass[static_cast<std::size_t>(each)]) write(each);
        }
      }
    }
  }

  bool made_by(int b, int k) const {
    return in_pass[static_cast<std::size_t>(b)] && at(b).kind != torch_kind::input &&
           kernel_of[static_cast<std::size_t>(b)] == k;
  }

  std::vector<char> result_views, read_elsewhere;

  void place(int k) {
    auto& kernel = kernels[static_cast<std::size_t>(k)];
    if (kernel.placed) return;
    kernel.placed = true;
    for (const int b : kernel.reads) {
      const auto j = static_cast<std::size_t>(b);
      if (in_pass[j] && at(b).kind != torch_kind::input && kernel_of[j] >= 0) place(kernel_of[j]);
    }
    placed.push_back(k);
  }

  std::int64_t time_of(const launched& kernel) const {
    if (kernel.library) return at(kernel.members[0]).ns;
    std::int64_t bytes = 0;
    std::int64_t loop = 0;
    for (const int v : kernel.members) loop = std::max(loop, at(v).elements);
    for (const int b : kernel.reads) bytes += std::min(at(b).bytes, 8 * loop);
    for (const int b : kernel.writes) bytes += at(b).bytes;
    return std::max(step.launch_ns,
                    static_cast<std::int64_t>(static_cast<double>(bytes) / step.bytes_per_ns));
  }

  // Time and peak of one graph. `begin`: bytes that are there when it begins, of which `freed` may go.
  std::int64_t walk(const std::vector<int>& order, bool backward, std::int64_t live) {
    std::ranges::fill(in_pass, 0);
    for (const int v : order) in_pass[static_cast<std::size_t>(v)] = 1;
    fuse(order, backward);
    placed.clear();
    for (std::size_t k = 0; k < kernels.size(); ++k) place(static_cast<int>(k));
    constexpr int never = -1, always = std::numeric_limits<int>::max();
    for (const auto& kernel : kernels) {
      for (const int b : kernel.reads) last_use[static_cast<std::size_t>(b)] = never;
      for (const int b : kernel.writes) last_use[static_cast<std::size_t>(b)] = never;
    }
    for (std::size_t t = 0; t < placed.size(); ++t) {
      const auto& kernel = kernels[static_cast<std::size_t>(placed[t])];
      for (const int b : kernel.reads) last_use[static_cast<std::size_t>(b)] = static_cast<int>(t);
      for (const int b : kernel.writes) last_use[static_cast<std::size_t>(b)] = static_cast<int>(t);
    }
    for (const auto& kernel : kernels) {
      for (const int b : kernel.writes) {
        if (stays(b, backward)) last_use[static_cast<std::size_t>(b)] = always;
      }
    }
    for (std::size_t t = 0; t < placed.size(); ++t)
      live = run(kernels[static_cast<std::size_t>(placed[t])], static_cast<int>(t), live, backward);
    return live;
  }

  bool stays(int b, bool backward) const {
    return backward ? at(b).backward_result || result_views[static_cast<std::size_t>(b)]
                    : at(b).forward_result || result_views[static_cast<std::size_t>(b)] ||
                          is_saved[static_cast<std::size_t>(b)];
  }

  bool dies(int b, int t, bool backward) const {
    const auto j = static_cast<std::size_t>(b);
    if (last_use[j] != t) return false;
    const auto& node = at(b);
    if (node.kind == torch_kind::input) return !node.resident && backward;
    return in_pass[j] || (backward && is_saved[j] && !node.forward_result);
  }

  std::int64_t run(const launched& kernel, int t, std::int64_t live, bool backward) {
    std::int64_t written = 0, in_place = 0;
    for (const int b : kernel.writes) written += rounded(at(b).bytes);
    if (!kernel.library) {
      std::vector<int> dying;
      for (const int b : kernel.reads) {
        if (dies(b, t, backward)) dying.push_back(b);
      }
      for (const int b : kernel.writes) {
        const auto same = std::ranges::find_if(dying, [&](int d) { return at(d).bytes == at(b).bytes; });
        if (same == dying.end()) continue;
        in_place += rounded(at(b).bytes);
        dying.erase(same);
      }
    }
    const std::int64_t workspace = kernel.library ? at(kernel.members[0]).workspace : 0;
    const std::int64_t now = live + written - in_place + workspace;
    if (now > estimate.peak) {
      estimate.peak = now;
      estimate.peak_node = kernel.members[0];
    }
    estimate.excess += static_cast<double>(std::max<std::int64_t>(0, now - budget));
    estimate.ns += time_of(kernel);
    live += written;
    for (const int b : kernel.reads) {
      if (dies(b, t, backward)) live -= rounded(at(b).bytes);
    }
    for (const int b : kernel.writes) {
      if (dies(b, t, backward)) live -= rounded(at(b).bytes);
    }
    return live;
  }

  // The caching allocator's grain.
  static std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

  void mark_result_views(bool backward) {
    result_views.assign(step.nodes.size(), 0);
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      const auto& node = step.nodes[v];
      if (node.kind == torch_kind::view && (backward ? node.backward_result : node.forward_result))
        result_views[static_cast<std::size_t>(root[v])] = 1;
    }
  }

  torch_estimate evaluate(const std::vector<char>& saved) {
    estimate = {};
    need_backward(saved);
    order_forward();
    mark_result_views(false);
    std::int64_t live = step.base_bytes;
    walk(forward_order, false, live);
    std::size_t count = kernels.size();
    estimate.forward_peak = estimate.peak;
    for (const int v : used) estimate.saved_bytes += rounded(at(v).bytes);
    // What was sent, what the caller got, and the gradients that came in.
    live = step.base_bytes + estimate.saved_bytes;
    for (std::size_t v = 0; v < step.nodes.size(); ++v) {
      const auto& node = step.nodes[v];
      const bool result =
          (node.forward_result || (result_views[v] && !node.backward_result)) && node.forward && !is_saved[v];
      if (result || (node.kind == torch_kind::input && !node.resident)) live += rounded(node.bytes);
    }
    order_backward();
    mark_result_views(true);
    walk(backward_order, true, live);
    count += kernels.size();
    estimate.excess /= static_cast<double>(std::max<std::size_t>(1, count));
    return estimate;
  }
};

torch_model::torch_model(const torch_step& step, std::int64_t budget)
    : state_(std::make_unique<state>(step, budget)) {}
torch_model::~torch_model() = default;

torch_estimate torch_model::evaluate(const std::vector<char>& saved) {
  return state_->evaluate(saved);
}

torch_plan torch_model::plan() const {
  torch_plan made;
  made.saved = state_->used;
  std::ranges::sort(made.saved);
  std::vector<char> again(state_->step.nodes.size());
  for (const int v : state_->forward_order)
    again[static_cast<std::size_t>(v)] = state_->at(v).kind != torch_kind::view;
  for (const int v : state_->backward_order) {
    if (again[static_cast<std::size_t>(v)]) made.recomputed.push_back(v);
  }
  std::ranges::sort(made.recomputed);
  made.estimate = state_->estimate;
  return made;
}

}  // namespace um
