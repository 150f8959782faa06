#include "core/residency.hpp"

#include <algorithm>

namespace um {
namespace {

class block_walk {
 public:
  block_walk(const graph& g, const memory_plan& plan, const managed_map& managed, byte_count arena)
      : g_(g), plan_(plan), managed_(managed), resident_(arena / managed_block, false), filled_(resident_) {}

  void walk(residency& all) {
    all.changes.clear();
    all.resident_blocks.clear();
    for (std::uint32_t i = 0; i < plan_.actions.size(); ++i) {
      all.changes.push_back(change_at(i));
      all.resident_blocks.push_back(count_);
    }
  }

 private:
  // The runs of blocks of a range that change, as ranges. A block of which only small tensors were touched
  // still has to be filled up.
  std::vector<range> mark(const range& r, bool resident, bool wholly = true) {
    std::vector<range> changed;
    if (r.bytes == 0) return changed;
    for (byte_count b = r.offset / managed_block;
         b < (r.offset + r.bytes + managed_block - 1) / managed_block; ++b) {
      const bool fills_up = resident && wholly && !filled_[b];
      if (wholly) filled_[b] = resident;
      if (resident_[b] == resident && !fills_up) continue;
      if (resident_[b] != resident) resident ? ++count_ : --count_;
      resident_[b] = resident;
      const byte_count at = b * managed_block;
      if (!changed.empty() && changed.back().offset + changed.back().bytes == at) {
        changed.back().bytes += managed_block;
      } else {
        changed.push_back({at, managed_block});
      }
    }
    return changed;
  }

  room_change change_at(std::uint32_t i) {
    room_change c;
    const std::uint64_t before = count_;
    const auto leave = [&](const std::vector<range>& given_up) {
      for (const range& r : given_up) mark(r, false);
      c.freed = before - count_;
    };
    std::visit(overloaded{[](const advise&) {}, [&](const compute& x) { touch(x, c); },
                          [&](const prefetch& x) {
                            if (is_managed(plan_.home[x.what]))
                              c.fresh = mark(managed_.range_of(x.what, x.part), true);
                          },
                          [&](const evict& x) {
                            if (is_managed(plan_.home[x.what])) leave(managed_.owned(x.what, x.part, i));
                          },
                          [&](const discard& x) {
                            if (is_managed(plan_.home[x.what]))
                              leave(managed_.owned_alone(x.what, x.part, i));
                          }},
               plan_.actions[i]);
    return c;
  }

  void touch(const compute& x, room_change& c) {
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      if (!is_managed(plan_.home[a.what])) continue;
      const tensor& t = g_.tensors[a.what];
      for (const range& r : runs_of(t, a.where)) {
        const range there{managed_.offset_of(a.what) + r.offset, r.bytes};
        if (!mark(there, true, bytes_of(t) >= managed_block).empty()) c.fresh.push_back(there);
      }
    }
  }

  const graph& g_;
  const memory_plan& plan_;
  const managed_map& managed_;
  std::vector<bool> resident_, filled_;  // per block
  std::uint64_t count_ = 0;
};

}  // namespace

std::uint64_t residency::most_blocks() const {
  return resident_blocks.empty() ? 0 : *std::ranges::max_element(resident_blocks);
}

std::int32_t residency::giver_of_room(std::size_t at, std::uint64_t capacity) const {
  if (changes[at].fresh.empty() || resident_blocks[at] > capacity) return -1;
  std::uint64_t spare = capacity - resident_blocks[at];
  for (std::size_t k = at; k-- > 0;) {
    if (changes[k].freed > spare) return static_cast<std::int32_t>(k);
    spare -= changes[k].freed;
  }
  return -1;
}

residency residency_of(const graph& g, const memory_plan& plan, const layout& at,
                       const managed_map& managed) {
  residency all;
  all.live_device = at.live_device;
  block_walk blocks(g, plan, managed, at.managed_bytes);
  for (int iteration = 0; iteration < 2; ++iteration) blocks.walk(all);
  return all;
}

}  // namespace um
