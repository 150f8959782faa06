#include "core/copies.hpp"

#include <algorithm>
#include <stdexcept>

namespace um {
namespace {

region moved_region(const graph& g, const auto& x) {
  return region_of(g.tensors[x.tensor].shape, x.part);
}

bool is_dense_in_strip(const tensor& t, const region& strip, const region& r) {
  return contains(strip, r) && is_dense(part_of(t, strip), relative_to(r, strip));
}

}  // namespace

copy_tracker::copy_tracker(const graph& g, const memory_plan& plan, const std::vector<strip_layout>& strips)
    : g_(g), plan_(plan), strips_(strips) {
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const bool given = persists(g.tensors[t].role), at_home = is_pinned(plan.residences[t]);
    const std::uint32_t cells = strips[t].grid.cell_count();
    has_host_copy_.emplace_back(cells, given && at_home);
    device_states_.emplace_back(strips[t].strips.size(),
                                std::vector<state>(cells, given && !at_home ? state::valid : state::absent));
  }
}

std::string copy_tracker::describe(tensor_id t, std::uint32_t cell) const {
  std::string text = "tensor " + g_.tensors[t].name;
  if (!strips_[t].grid.is_whole()) {
    text += " " + to_text(g_.tensors[t].shape, region_of(strips_[t].grid, cell));
  }
  return text;
}

copy_tracker::error copy_tracker::for_each_cell(tensor_id t, const region& r, auto&& f) {
  for (const std::uint32_t c : cells_in(t, r)) {
    if (const char* const wrong = f(c)) return describe(t, c) + ": " + wrong;
  }
  return {};
}

copy_tracker::error copy_tracker::why_not_movable(tensor_id t, const char* participle) const {
  if (is_copied(plan_.residences[t]) || is_managed(plan_.residences[t])) return {};
  return "tensor " + g_.tensors[t].name + " has residence " + std::string(to_text(plan_.residences[t])) +
         " and cannot be " + participle;
}

copy_tracker::error copy_tracker::find_strip(tensor_id t, const region& r, std::uint32_t& strip) const {
  try {
    strip = strips_[t].find_strip(r);
    return {};
  } catch (const std::invalid_argument& none) {
    return "tensor " + g_.tensors[t].name + " " + to_text(g_.tensors[t].shape, r) + ": " + none.what();
  }
}

template <class Movement, class F>
copy_tracker::error copy_tracker::for_each_moved_cell(const Movement& x, const char* participle, F&& f) {
  if (auto wrong = why_not_movable(x.tensor, participle)) return wrong;
  if (plan_.residences[x.tensor] == residence::managed) return {};
  const region r = moved_region(g_, x);
  std::uint32_t strip = 0;
  if (auto wrong = find_strip(x.tensor, r, strip)) return wrong;
  return for_each_cell(x.tensor, r,
                       [&](std::uint32_t c) { return f(device_states_[x.tensor][strip][c], c); });
}

copy_tracker::error copy_tracker::apply(const prefetch& x, std::vector<std::uint32_t>* cells) {
  const residence home = plan_.residences[x.tensor];
  return for_each_moved_cell(x, "prefetched", [&](state& here, std::uint32_t c) -> const char* {
    if (home == residence::twinned && (here != state::absent || !has_host_copy_[x.tensor][c])) return nullptr;
    if (here != state::absent) return "it is resident already";
    if (!has_host_copy_[x.tensor][c]) return "its home holds no value";
    here = state::valid;
    if (cells != nullptr) cells->push_back(c);
    return nullptr;
  });
}

copy_tracker::error copy_tracker::apply(const evict& x, std::vector<std::uint32_t>* cells) {
  const residence home = plan_.residences[x.tensor];
  return for_each_moved_cell(x, "evicted", [&](state& here, std::uint32_t c) -> const char* {
    if (here == state::absent) return home == residence::twinned ? nullptr : "it is not resident";
    if (here == state::stale) return "it holds a stale value there";
    if (!has_host_copy_[x.tensor][c] && cells != nullptr) cells->push_back(c);
    has_host_copy_[x.tensor][c] = true;
    here = state::absent;
    return nullptr;
  });
}

copy_tracker::error copy_tracker::apply(const discard& x) {
  const bool managed = is_managed(plan_.residences[x.tensor]);
  return for_each_cell(x.tensor, moved_region(g_, x), [&](std::uint32_t c) -> const char* {
    bool held = has_host_copy_[x.tensor][c];
    has_host_copy_[x.tensor][c] = false;
    for (std::vector<state>& strip : device_states_[x.tensor]) {
      held = held || strip[c] != state::absent;
      strip[c] = state::absent;
    }
    // Discarding managed memory is always allowed: it may hold data of an earlier iteration.
    return held || managed ? nullptr : "it holds no value to discard";
  });
}

bool copy_tracker::holds(tensor_id t, std::uint32_t strip, const region& r) const {
  return std::ranges::all_of(cells_in(t, r),
                             [&](std::uint32_t c) { return device_states_[t][strip][c] == state::valid; });
}

bool copy_tracker::holds_any(tensor_id t, std::uint32_t strip, const region& r) const {
  return std::ranges::any_of(cells_in(t, r),
                             [&](std::uint32_t c) { return device_states_[t][strip][c] != state::absent; });
}

bool copy_tracker::is_readable_by_kernels(tensor_id t, std::uint32_t cell) const {
  if (plan_.residences[t] == residence::host) return has_host_copy_[t][cell];
  return std::ranges::any_of(device_states_[t],
                             [&](const auto& strip) { return strip[cell] == state::valid; });
}

bool copy_tracker::is_stale(tensor_id t, std::uint32_t cell) const {
  return std::ranges::any_of(device_states_[t],
                             [&](const auto& strip) { return strip[cell] == state::stale; });
}

std::vector<strip_region> copy_tracker::sources_of(tensor_id t, const region& r) const {
  const std::vector<region>& strips = strips_[t].strips;
  if (plan_.residences[t] == residence::host) {
    for (const std::uint32_t c : cells_in(t, r)) {
      if (!has_host_copy_[t][c]) return {};
    }
    return {{0, r}};
  }
  std::optional<strip_region> whole;
  for (std::uint32_t s = 0; s < strips.size(); ++s) {
    if (!contains(strips[s], r) || !holds(t, s, r)) continue;
    if (is_dense_in_strip(g_.tensors[t], strips[s], r)) return {{s, r}};
    if (!whole) whole = {s, r};
  }
  if (whole) return {*whole};
  std::vector<std::uint32_t> missing = cells_in(t, r);
  std::vector<strip_region> parts;
  for (std::uint32_t s = 0; s < strips.size() && !missing.empty(); ++s) {
    const auto met = intersection(r, strips[s]);
    if (!met) continue;
    const auto is_here = [&](std::uint32_t c) {
      return contains(strips[s], region_of(strips_[t].grid, c)) && device_states_[t][s][c] == state::valid;
    };
    if (std::ranges::none_of(missing, is_here)) continue;
    if (holds(t, s, *met)) {
      parts.push_back({s, *met});
    } else {
      for (const std::uint32_t c : missing) {
        if (is_here(c)) parts.push_back({s, *intersection(r, region_of(strips_[t].grid, c))});
      }
    }
    std::erase_if(missing, is_here);
  }
  return missing.empty() ? parts : std::vector<strip_region>{};
}

strip_region copy_tracker::write(tensor_id t, const region& r) {
  const std::uint32_t strip = strips_[t].find_strip(r);
  const bool on_host = plan_.residences[t] == residence::host;
  for (const std::uint32_t c : cells_in(t, r)) {
    has_host_copy_[t][c] = on_host;
    for (std::uint32_t s = 0; s < device_states_[t].size(); ++s) {
      state& here = device_states_[t][s][c];
      if (s == strip) {
        here = on_host ? state::absent : state::valid;
      } else if (here == state::valid) {
        here = state::stale;
      }
    }
  }
  return {strip, r};
}

}  // namespace um
