#include "core/strips.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/memory_plan.hpp"

namespace um {
namespace {

// The regions of one tensor that the actions of a plan use.
struct used_regions {
  std::vector<region> cross_sections;    // cross-sections of all accesses and moves
  std::vector<region> moved_or_written;  // cross-sections of writes and moves
  std::vector<std::int64_t> borders;
};

// Records whether whole cross-sections of a staged tensor, parts of them, or both are moved and written while
// it is on the device.
class cross_section_use {
 public:
  // `whole`: `cross_section` is the tensor's whole cross-section.
  void add_resident(const region& r, const region& cross_section, bool whole) {
    record_whole(whole);
    if (std::ranges::none_of(on_device_, [&](const resident_region& x) { return contains(x.covered, r); }))
      on_device_.push_back({r, cross_section});
  }
  void record_whole(bool whole) {
    (whole ? has_whole_ : has_part_) = true;
    is_mixed_ = is_mixed_ || (has_whole_ && has_part_);
  }
  // Removes the regions within `r` that lie in the strip of that cross-section.
  void remove_from_cross_section(const region& r, const region& cross_section) {
    remove_within(r, [&](const resident_region& x) { return x.cross_section == cross_section; });
  }
  void remove_from_all_cross_sections(const region& r) {
    remove_within(r, [](const resident_region&) { return true; });
  }
  bool is_mixed() const { return is_mixed_; }

 private:
  struct resident_region {
    region covered, cross_section;
  };
  void remove_within(const region& r, auto&& is_affected) {
    std::erase_if(on_device_,
                  [&](const resident_region& x) { return is_affected(x) && contains(r, x.covered); });
    is_mixed_ = is_mixed_ || std::ranges::any_of(on_device_, [&](const resident_region& x) {
                  return is_affected(x) && intersection(x.covered, r).has_value();
                });
    if (on_device_.empty()) has_whole_ = has_part_ = false;
  }

  std::vector<resident_region> on_device_;
  bool has_whole_ = false, has_part_ = false, is_mixed_ = false;
};

class strip_finder {
 public:
  strip_finder(const graph& g, const memory_plan& plan)
      : g_(g), plan_(plan), used_(g.tensors.size()), cross_sections_(g.tensors.size()) {
    for (const tensor& t : g.tensors) outer_axes_.push_back(outer_axis(t));
    for (const action& a : plan.actions) std::visit([&](const auto& x) { add(x); }, a);
  }

  strip_layout layout_of(tensor_id t, cell_grid cells) {
    const region whole = whole_of(g_.tensors[t].shape);
    strip_layout layout{
        outer_axes_[t], {whole}, {0, range_along(whole, outer_axes_[t]).end}, std::move(cells)};
    if (!may_have_parts(t)) return layout;
    used_regions& used = used_[t];
    sort_and_remove_duplicates(used.cross_sections);
    sort_and_remove_duplicates(used.moved_or_written);
    layout.segment_borders.insert(layout.segment_borders.end(), used.borders.begin(), used.borders.end());
    sort_and_remove_duplicates(layout.segment_borders);
    const bool apart = plan_.residences[t] == residence::staged && !cross_sections_[t].is_mixed();
    if (!used.moved_or_written.empty() && (apart || !std::ranges::binary_search(used.cross_sections, whole)))
      layout.strips = used.moved_or_written;
    return layout;
  }

 private:
  // Whether strips and segments of the tensor come and go; others are stored whole.
  bool may_have_parts(tensor_id t) const {
    const residence home = plan_.residences[t];
    return home == residence::staged || (home == residence::device && !survives(g_.tensors[t].role));
  }

  void add(const advise&) {}
  void add(const compute& x) {
    for (const access& a : accesses_of(g_, x)) {
      if (!may_have_parts(a.tensor)) continue;
      const bool writes = a.mode != access_mode::read;
      add(a.tensor, a.where, true, writes);
      if (plan_.residences[a.tensor] != residence::staged) continue;
      const region cross_section = cross_section_of(a.tensor, a.where);
      if (writes) {
        cross_sections_[a.tensor].add_resident(a.where, cross_section, is_whole(a.tensor, cross_section));
      } else if (is_whole(a.tensor, cross_section)) {
        cross_sections_[a.tensor].record_whole(true);
      }
    }
  }
  void add(const discard& x) {
    if (!may_have_parts(x.tensor)) return;
    const region r = region_of(g_.tensors[x.tensor].shape, x.part);
    add(x.tensor, r, false, false);
    cross_sections_[x.tensor].remove_from_all_cross_sections(r);
  }
  void add(const prefetch& x) {
    if (!may_have_parts(x.tensor)) return;
    const region r = region_of(g_.tensors[x.tensor].shape, x.part),
                 cross_section = cross_section_of(x.tensor, r);
    add(x.tensor, r, true, true);
    cross_sections_[x.tensor].add_resident(r, cross_section, is_whole(x.tensor, cross_section));
  }
  void add(const evict& x) {
    if (!may_have_parts(x.tensor)) return;
    const region r = region_of(g_.tensors[x.tensor].shape, x.part),
                 cross_section = cross_section_of(x.tensor, r);
    add(x.tensor, r, true, true);
    cross_sections_[x.tensor].record_whole(is_whole(x.tensor, cross_section));
    cross_sections_[x.tensor].remove_from_cross_section(r, cross_section);
  }

  // Returns the region with the whole outer axis.
  region cross_section_of(tensor_id t, region r) const {
    range_along(r, outer_axes_[t]) = range_along(whole_of(g_.tensors[t].shape), outer_axes_[t]);
    return r;
  }
  bool is_whole(tensor_id t, const region& cross_section) const {
    return cross_section == whole_of(g_.tensors[t].shape);
  }

  void add(tensor_id t, const region& r, bool is_access, bool is_move_or_write) {
    const region cross_section = cross_section_of(t, r);
    const auto once = [&](std::vector<region>& all) {
      if (all.empty() || all.back() != cross_section) all.push_back(cross_section);
    };
    if (is_access) once(used_[t].cross_sections);
    if (is_move_or_write) once(used_[t].moved_or_written);
    used_[t].borders.push_back(range_along(r, outer_axes_[t]).begin);
    used_[t].borders.push_back(range_along(r, outer_axes_[t]).end);
  }

  const graph& g_;
  const memory_plan& plan_;
  std::vector<axis> outer_axes_;
  std::vector<used_regions> used_;
  std::vector<cross_section_use> cross_sections_;
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
  const auto begin = std::ranges::upper_bound(segment_borders, i.begin) - segment_borders.begin() - 1;
  const auto end = std::ranges::lower_bound(segment_borders, i.end) - segment_borders.begin();
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

region strip_layout::segment_region(std::uint32_t strip, std::uint32_t segment) const {
  region r = strips[strip];
  range_along(r, outer) = {segment_borders[segment], segment_borders[segment + 1]};
  return r;
}

std::uint32_t strip_layout::find_strip(const region& r) const {
  region cross_section = r;
  range_along(cross_section, outer) = range_along(strips.front(), outer);
  const auto at = std::ranges::find(strips, cross_section);
  if (at != strips.end()) return static_cast<std::uint32_t>(at - strips.begin());
  if (strips.size() > 1 || !contains(strips.front(), r)) {
    throw std::invalid_argument("no part of that cross-section is ever on the device");
  }
  return 0;
}

std::vector<strip_layout> make_strip_layouts(const graph& g, const memory_plan& plan) {
  std::vector<cell_grid> cells = cells_of(g, plan);
  strip_finder taken(g, plan);
  std::vector<strip_layout> all;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    all.push_back(taken.layout_of(t, std::move(cells[t])));
  }
  return all;
}

}  // namespace um
