#include "schedule/orders.hpp"

#include <algorithm>

namespace um {
namespace {

// How many images an operator's batch has.
std::int64_t images_of(const graph& g, const op& o) {
  return domain_of(g, o).batch.end;
}

// When an operator is computed: whole before the first part that needs it, in parts, or whole at the end.
enum class turn : std::uint8_t { first, in_parts, last };

std::vector<turn> turns_of(const graph& g, const loops& l) {
  std::vector<turn> turns;
  std::vector<turn> of_tensor(g.tensors.size(), turn::first);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    turn reads = turn::first;
    const op* late = nullptr;
    for (const tensor_id t : x.in) reads = std::max(reads, of_tensor[t]);
    const bool deferred = std::ranges::find(l.late, o) != l.late.end();
    const bool cut = l.micro_batches > 1 && goes_over_batch(g, x, l.micro_batches);
    turn own = cut ? turn::in_parts : reads == turn::first ? turn::first : turn::last;
    if (deferred || reads == turn::last) own = turn::last;
    if (l.micro_batches == 1 && own == turn::first) own = turn::in_parts;
    if (cut && reads == turn::last && !deferred) {
      for (op_id k = 0; k < o; ++k) {
        const auto& out = g.ops[k].out;
        if (turns[k] == turn::last && std::ranges::find_first_of(x.in, out) != x.in.end()) late = &g.ops[k];
      }
      throw infeasible("micro-batches cannot go through " + late->name + " (" +
                       std::string(kind_of(late->what)) + "): it needs the whole batch, and " + x.name +
                       " reads what it writes");
    }
    turns.push_back(own);
    for (const tensor_id t : x.out)
      of_tensor[t] = l.micro_batches == 1 && own != turn::last ? turn::first : own;
  }
  return turns;
}

}  // namespace

std::vector<compute> in_order(const graph& g) {
  std::vector<compute> all;
  for (op_id o = 0; o < g.ops.size(); ++o) all.push_back({o, {}});
  return all;
}

memory_plan plan_of(const graph& g, const std::vector<compute>& order, residence home) {
  memory_plan plan;
  plan.home.assign(g.tensors.size(), home);
  plan.actions.assign(order.begin(), order.end());
  return plan;
}

std::int64_t batch_of(const graph& g) {
  const auto input = std::ranges::find(g.tensors, role::input, &tensor::use);
  return input == g.tensors.end() ? 1 : input->shape.n;
}

bool goes_over_batch(const graph& g, const op& o, std::uint32_t parts) {
  if (parts == 1) return true;
  try {
    const std::int64_t images = images_of(g, o);
    return std::ranges::all_of(accesses_of(g, o, batch_part(images, parts - 1, parts)), [&](const access& a) {
      return !is_of_parameters(g.tensors[a.what].use) || is_whole(g.tensors[a.what].shape, a.where);
    });
  } catch (const std::invalid_argument&) {  // no such cut, or fewer images than parts
    return false;
  }
}

std::vector<compute> order_of(const graph& g, const loops& l) {
  const std::vector<turn> turns = turns_of(g, l);
  std::vector<compute> order;
  const std::uint32_t k = l.micro_batches;
  const auto add = [&](op_id o, std::uint32_t part, std::uint32_t of) {
    const bool whole = of == 1 || turns[o] == turn::first;
    if (turns[o] == turn::last || (whole && part > 0)) return;
    const std::int64_t images = images_of(g, g.ops[o]);
    order.push_back(whole ? compute{o, {}} : compute{o, batch_part(images, part, of)});
  };
  const auto count = static_cast<op_id>(g.ops.size());
  for (std::uint32_t part = 0; part < k; ++part) {
    auto next = l.inner.begin();
    for (op_id o = 0; o < count;) {
      if (next == l.inner.end() || o < next->begin) {
        add(o++, part, k);
        continue;
      }
      for (std::uint32_t i = 0; i < next->parts; ++i) {
        const std::uint32_t at = next->descending ? next->parts - 1 - i : i;
        for (op_id x = next->begin; x < next->end; ++x) add(x, part * next->parts + at, k * next->parts);
      }
      o = next++->end;
    }
  }
  for (op_id o = 0; o < count; ++o) {
    if (turns[o] == turn::last) order.push_back({o, {}});
  }
  return order;
}

std::vector<op_id> large_gradients(const graph& g) {
  std::vector<op_id> all;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const op& x = g.ops[o];
    byte_count in = 0, out = 0;
    for (const tensor_id t : x.in) in += bytes_of(g.tensors[t]);
    for (const tensor_id t : x.out) out += bytes_of(g.tensors[t]);
    const bool only_gradients =
        std::ranges::all_of(x.out, [&](tensor_id t) { return g.tensors[t].use == role::parameter_gradient; });
    if (only_gradients && out > in) all.push_back(o);
  }
  return all;
}

}  // namespace um
