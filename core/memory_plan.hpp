// A plan: the residence of every tensor, and a list of actions in program order. lower() determines which
// actions may overlap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/access.hpp"
#include "core/names.hpp"

namespace um {

// Value of compute::workspace: the workspace of the profile or, for a part, the one that the backend chooses.
inline constexpr byte_count as_profiled = std::numeric_limits<byte_count>::max();
struct compute {  // runs an operator: whole, on a part (tiling), or again (recomputation)
  op_id op = 0;
  box part;                            // the part of the operator's iteration domain
  byte_count workspace = as_profiled;  // maximum workspace; the fastest engine within it is used
  bool cheap_recompute = false;  // computes only the first output, from the inputs and the other outputs
  friend bool operator==(const compute&, const compute&) = default;
};

// A cheaper operator that recomputes the first output of `o`, with the same bits, from the inputs and other
// outputs of `o`; nothing if there is none. For batch normalisation it is normalisation with the statistics
// of the first run. It needs no workspace, does not work in place, and can be cut as `o` can.
std::optional<op> cheap_recomputation_of(const op& o);

// The operator that a compute runs: the original or, with `cheap_recompute`, the cheaper one. Throws
// std::invalid_argument, naming the operator, if it has none.
op operator_of(const graph& g, const compute& c);

// The accesses of the operator that `c` runs.
std::vector<access> accesses_of(const graph& g, const compute& c);

// `c` with `cheap_recompute` set, if the operator has a cheaper recomputation.
compute as_cheap_recomputation(const graph& g, compute c);

// Time of the recomputation as a share of the operator's time, estimated by the bytes that both move.
double cheap_recomputation_share(const graph& g, const op& o);

// Where a tensor's value is kept.
//
// device: in the device arena from its first write to its last use. staged: on the host in pinned memory, in
// the device arena while resident. managed: in the managed arena, moved by the driver and by prefetch and
// evict. twinned: in the managed arena; evict copies it to its own pinned twin and discards it, prefetch
// populates its range and copies it back, and nothing else moves it. host: in pinned host memory, accessed
// over the link (zero-copy).
enum class residence : std::uint8_t { device, staged, managed, twinned, host };
template <>
inline constexpr std::array enum_names<residence>{"device"sv, "staged"sv, "managed"sv, "twinned"sv, "host"sv};

// Whether a tensor with this residence has an address in the managed arena.
constexpr bool is_managed(residence home) {
  return home == residence::managed || home == residence::twinned;
}
// Whether a tensor with this residence has pinned host memory for the whole run.
constexpr bool is_pinned(residence home) {
  return home == residence::staged || home == residence::twinned || home == residence::host;
}
// Whether only copies of the plan move such a tensor, so kernels must find it on the device.
constexpr bool is_copied(residence home) {
  return home == residence::staged || home == residence::twinned;
}

enum class advice : std::uint8_t {
  read_mostly,
  preferred_device,
  preferred_host,
  accessed_by_device,
};
template <>
inline constexpr std::array enum_names<advice>{"read_mostly"sv, "preferred_device"sv, "preferred_host"sv,
                                               "accessed_by_device"sv};

struct advise {  // of managed tensors only; in force for the whole run
  tensor_id tensor = 0;
  advice hint = advice::read_mostly;
  friend bool operator==(const advise&, const advise&) = default;
};
struct prefetch {  // makes a part resident on the device
  tensor_id tensor = 0;
  box part;
  friend bool operator==(const prefetch&, const prefetch&) = default;
};
struct evict {  // frees the part's device memory and keeps the value
  tensor_id tensor = 0;
  box part;
  friend bool operator==(const evict&, const evict&) = default;
};
struct discard {  // frees the part's memory: its value is not needed any more
  tensor_id tensor = 0;
  box part;
  friend bool operator==(const discard&, const discard&) = default;
};
using action = std::variant<advise, prefetch, evict, discard, compute>;
inline constexpr std::array<std::string_view, std::variant_size_v<action>> verbs{
    "advise", "prefetch", "evict", "discard", "compute"};
constexpr std::string_view verb_of(const action& a) {
  return verbs[a.index()];
}

struct memory_plan {
  std::vector<residence> residences;  // one per tensor
  std::vector<action> actions;
  // Ascending indices into `actions` at which the lanes join: later actions begin when all earlier ones have
  // ended. Most plans need none.
  std::vector<std::uint32_t> joins = {};
  friend bool operator==(const memory_plan&, const memory_plan&) = default;
};

// For example "prefetch conv1.w [batch 0:8]".
std::string to_text(const graph& g, const action& a);

void sort_and_remove_duplicates(auto& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

// How a plan cuts a tensor: along each axis, the sorted borders of its parts, including 0 and the extent. The
// borders form a grid of cells, and every action covers whole cells. Cells are numbered row first, then
// channel, then batch.
struct cell_grid {
  std::vector<std::int64_t> batch, channel, row;
  std::uint32_t cell_count() const;  // number of cells
  std::uint32_t batch_part_count() const;
  std::uint32_t cells_per_batch_part() const;  // number of cells of one part of the batch
  bool is_whole() const { return cell_count() == 1; }
};
// The grid of each tensor. Throws std::invalid_argument if a plan names a part that a tensor or an operator
// does not have, cuts an operator that cannot be cut like that, or cuts a tensor into more than 65,536 cells.
std::vector<cell_grid> cells_of(const graph& g, const memory_plan& plan);

// The cells that a region overlaps: parts [batch_begin, batch_end) along the batch, and likewise along the
// other axes.
struct cell_span {
  std::uint32_t batch_begin = 0, batch_end = 1, channel_begin = 0, channel_end = 1, row_begin = 0,
                row_end = 1;
};
cell_span cells_in(const cell_grid& cells, const region& r);
// The indices of these cells, ascending.
std::vector<std::uint32_t> cell_indices_of(const cell_grid& cells, const cell_span& span);
region region_of(const cell_grid& cells, std::uint32_t cell);

}  // namespace um
