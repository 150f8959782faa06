// A strategy's decision: where every tensor lives, and one list of actions. List order is program
// order; what may overlap is worked out by lower().
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/access.hpp"

namespace um {

// Where a tensor's value lives.
//   device   in the device arena from its first write to its last use
//   staged   at home in pinned host memory, in the device arena while resident
//   managed  in the managed arena; the driver, prefetch and evict move it
//   twinned  in the managed arena; evict copies it to a pinned twin of its own and discards it, prefetch
//            populates its range and copies it back; nothing else moves it
//   host     in pinned host memory, read and written over the link (zero-copy)
enum class residence : std::uint8_t { device, staged, managed, twinned, host };
inline constexpr std::array all_residences{residence::device, residence::staged, residence::managed,
                                           residence::twinned, residence::host};

// Addressed in the managed arena.
constexpr bool is_managed(residence home) {
  return home == residence::managed || home == residence::twinned;
}
// Has a place in pinned host memory for the whole run.
constexpr bool is_pinned(residence home) {
  return home == residence::staged || home == residence::twinned || home == residence::host;
}
// Moved by copies that only the plan makes: a kernel must find it on the device.
constexpr bool is_copied(residence home) {
  return home == residence::staged || home == residence::twinned;
}

enum class advice : std::uint8_t {
  read_mostly,
  preferred_device,
  preferred_host,
  accessed_by_device,
};

struct advise {  // managed only; stays in force for the whole run
  tensor_id what = 0;
  advice hint = advice::read_mostly;
  friend bool operator==(const advise&, const advise&) = default;
};
struct prefetch {  // make resident on the device
  tensor_id what = 0;
  slice part;
  friend bool operator==(const prefetch&, const prefetch&) = default;
};
struct evict {  // keep the value, give up the device space
  tensor_id what = 0;
  slice part;
  friend bool operator==(const evict&, const evict&) = default;
};
struct discard {  // the value is dead
  tensor_id what = 0;
  slice part;
  friend bool operator==(const discard&, const discard&) = default;
};
struct compute {  // again for the same operator: recomputation; of a slice: tiling
  op_id what = 0;
  slice part;
  friend bool operator==(const compute&, const compute&) = default;
};
using action = std::variant<advise, prefetch, evict, discard, compute>;
inline constexpr std::array<std::string_view, std::variant_size_v<action>> verbs{
    "advise", "prefetch", "evict", "discard", "compute"};
constexpr std::string_view verb_of(const action& a) {
  return verbs[a.index()];
}

struct memory_plan {
  std::vector<residence> home;  // one per tensor
  std::vector<action> actions;
  friend bool operator==(const memory_plan&, const memory_plan&) = default;
};

std::string_view to_text(residence home);
std::string_view to_text(advice hint);
// "[batch 0/4]"; nothing for the whole.
std::string to_text(const slice& s);
// "prefetch conv1.w [batch 0/4]".
std::string to_text(const graph& g, const action& a);

// How a tensor is cut in a plan. `of` is the least common multiple of all cuts the plan makes of
// it along one axis, so that every action covers a run of whole parts.
struct cut {
  axis along = axis::batch;
  std::uint32_t of = 1;
};
// One cut per tensor. Throws std::invalid_argument if a plan cuts a tensor along two axes, into
// more parts than it has elements there, or names an operator that cannot be cut so.
std::vector<cut> cuts_of(const graph& g, const memory_plan& plan);

// The parts [begin, end) of a tensor's cut that a region or slice touches.
struct part_run {
  std::uint32_t begin = 0, end = 1;
};
part_run parts_of(const dims& shape, const cut& c, const region& r);
part_run parts_of(const cut& c, const slice& s);

}  // namespace um
