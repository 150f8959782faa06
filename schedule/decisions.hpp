// What happens in every gap, and the one way from there to a plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/uses.hpp"

namespace um {

enum class choice : std::uint8_t {
  keep,   // the part stays
  swap,   // it leaves for its home behind `leave` and comes back before `back`
  again,  // it is given up behind its last use and computed again when something needs it
};

// For one gap. Positions outside it count as its ends.
struct decision {
  choice what = choice::keep;
  position leave = 0;  // swap: the position behind which it leaves
  // The position before which it comes back (swap), or from which on it stays once it was computed again
  // (again). Whatever is brought back earlier, since something is computed again from it, is given up
  // again behind that.
  position back = 0;
  friend bool operator==(const decision&, const decision&) = default;
};

// Everything a plan does, compactly: what is not `compute` concerns a part.
enum class verb : std::uint8_t { compute, prefetch, evict, discard };
struct event {
  verb what = verb::compute;
  std::uint32_t which = 0;  // compute: a position of the order (again, if it was there before); else a part
  friend bool operator==(const event&, const event&) = default;
};

// Tensors with residence `staged`: a part of them is swapped in some gap. The rest lies on the device.
std::vector<bool> staged_tensors(const use_table& uses, std::span<const gap> gaps,
                                 std::span<const decision> decisions);

// One decision for each gap, as gaps_of() gives them. What is needed where it is not is fetched or computed
// again first, and so, recursively, what that is computed from. A staged tensor that starts at home is
// fetched at the start where its decision says nothing else, and one that must be kept leaves at the end.
// Throws std::invalid_argument where `again` or `swap` is decided for what cannot.
std::vector<event> events_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                             std::span<const decision> decisions);

memory_plan plan_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                    std::span<const decision> decisions);

}  // namespace um
