#include "core/strips.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/compute.hpp"

namespace um {
namespace {

region section_along(const tensor& t, axis outer, region r) {
  range_along(r, outer) = range_along(whole_of(t.shape), outer);
  return r;
}

// The regions of one tensor that the actions of a plan use.
struct takes {
  std::vector<region> sections;  // of all accesses and moves
  std::vector<region> named;     // of writes and moves
  std::vector<std::int64_t> borders;
};

// Whether whole cross-sections, parts of them, or both are moved and written while a staged tensor is on the
// device.
class stays {
 public:
  // `whole`: all of the cross-section.
  void take(const region& r, const region& section, bool whole) {
    note(whole);
    if (std::ranges::none_of(here_, [&](const held& x) { return contains(x.what, r); }))
      here_.push_back({r, section});
  }
  void note(bool whole) {
    (whole ? whole_ : part_) = true;
    mixed_ = mixed_ || (whole_ && part_);
  }
  // The regions in the strip of that cross-section.
  void give_up(const region& r, const region& section) {
    remove(r, [&](const held& x) { return x.section == section; });
  }
  void forget(const region& r) {
    remove(r, [](const held&) { return true; });
  }
  bool mixed() const { return mixed_; }

 private:
  struct held {
    region what, section;
  };
  template <class F>
  void remove(const region& r, F&& concerns) {
    std::erase_if(here_, [&](const held& x) { return concerns(x) && contains(r, x.what); });
    mixed_ = mixed_ || std::ranges::any_of(here_, [&](const held& x) {
               return concerns(x) && intersection(x.what, r).has_value();
             });
    if (here_.empty()) whole_ = part_ = false;
  }

  std::vector<held> here_;
  bool whole_ = false, part_ = false, mixed_ = false;
};

void sort_out(auto& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

class gathering {
 public:
  gathering(const graph& g, const memory_plan& plan)
      : g_(g), plan_(plan), taken_(g.tensors.size()), stays_(g.tensors.size()) {
    for (const tensor& t : g.tensors) outer_.push_back(outer_axis(t));
    for (const action& a : plan.actions) std::visit([&](const auto& x) { add(x); }, a);
  }

  strip_layout layout_of(tensor_id t, residence home, cell_grid cells) {
    const tensor& what = g_.tensors[t];
    const region whole = whole_of(what.shape);
    takes& taken = taken_[t];
    sort_out(taken.sections);
    sort_out(taken.named);
    strip_layout layout{outer_[t], {whole}, {0, range_along(whole, outer_[t]).end}, std::move(cells)};
    const bool in_arena = home == residence::staged || (home == residence::device && !survives(what.use));
    if (!in_arena) return layout;
    layout.segments.insert(layout.segments.end(), taken.borders.begin(), taken.borders.end());
    sort_out(layout.segments);
    const bool apart = home == residence::staged && !stays_[t].mixed();
    if (!taken.named.empty() && (apart || !std::ranges::binary_search(taken.sections, whole)))
      layout.strips = taken.named;
    return layout;
  }

 private:
  void add(const advise&) {}
  void add(const compute& x) {
    for (const access& a : accesses_of(g_, x)) {
      const bool writes = a.mode != access_mode::read;
      add(a.what, a.where, true, writes);
      if (plan_.home[a.what] != residence::staged) continue;
      const region section = section_of(a.what, a.where);
      if (writes) {
        stays_[a.what].take(a.where, section, is_whole(a.what, section));
      } else if (is_whole(a.what, section)) {
        stays_[a.what].note(true);
      }
    }
  }
  void add(const discard& x) {
    const region r = region_of(g_.tensors[x.what].shape, x.part);
    add(x.what, r, false, false);
    stays_[x.what].forget(r);
  }
  void add(const prefetch& x) {
    const region r = region_of(g_.tensors[x.what].shape, x.part), section = section_of(x.what, r);
    add(x.what, r, true, true);
    stays_[x.what].take(r, section, is_whole(x.what, section));
  }
  void add(const evict& x) {
    const region r = region_of(g_.tensors[x.what].shape, x.part), section = section_of(x.what, r);
    add(x.what, r, true, true);
    stays_[x.what].note(is_whole(x.what, section));
    stays_[x.what].give_up(r, section);
  }

  region section_of(tensor_id t, const region& r) const { return section_along(g_.tensors[t], outer_[t], r); }
  bool is_whole(tensor_id t, const region& section) const { return section == whole_of(g_.tensors[t].shape); }

  void add(tensor_id t, const region& r, bool takes, bool names) {
    const region section = section_of(t, r);
    const auto once = [&](std::vector<region>& all) {
      if (all.empty() || all.back() != section) all.push_back(section);
    };
    if (takes) once(taken_[t].sections);
    if (names) once(taken_[t].named);
    taken_[t].borders.push_back(range_along(r, outer_[t]).begin);
    taken_[t].borders.push_back(range_along(r, outer_[t]).end);
  }

  const graph& g_;
  const memory_plan& plan_;
  std::vector<axis> outer_;
  std::vector<takes> taken_;
  std::vector<stays> stays_;
};

}  // namespace

axis outer_axis(const tensor& t) {
  if (t.shape.n > 1) return axis::batch;
  if (t.order == memory_order::nchw) return t.shape.c > 1 ? axis::channel : axis::row;
  return t.shape.h > 1 || t.shape.w > 1 ? axis::row : axis::channel;
}

const interval& range_along(const region& r, axis along) {
  return along == axis::batch ? r.batch : along == axis::channel ? r.channel : r.row;
}
interval& range_along(region& r, axis along) {
  return along == axis::batch ? r.batch : along == axis::channel ? r.channel : r.row;
}

std::pair<std::uint32_t, std::uint32_t> strip_layout::segments_in(const region& r) const {
  const interval& i = range_along(r, outer);
  const auto first = std::ranges::upper_bound(segments, i.begin) - segments.begin() - 1;
  const auto last = std::ranges::lower_bound(segments, i.end) - segments.begin();
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)};
}

region strip_layout::segment_of(std::uint32_t strip, std::uint32_t segment) const {
  region r = strips[strip];
  range_along(r, outer) = {segments[segment], segments[segment + 1]};
  return r;
}

std::uint32_t strip_layout::strip_of(const region& r) const {
  region section = r;
  range_along(section, outer) = range_along(strips.front(), outer);
  const auto at = std::ranges::find(strips, section);
  if (at != strips.end()) return static_cast<std::uint32_t>(at - strips.begin());
  if (strips.size() > 1 || !contains(strips.front(), r)) {
    throw std::invalid_argument("no part of that cross-section is ever on the device");
  }
  return 0;
}

std::vector<strip_layout> strips_of(const graph& g, const memory_plan& plan) {
  std::vector<cell_grid> cells = cells_of(g, plan);
  gathering taken(g, plan);
  std::vector<strip_layout> all;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    all.push_back(taken.layout_of(t, plan.home[t], std::move(cells[t])));
  }
  return all;
}

}  // namespace um
