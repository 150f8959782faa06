#include "schedule/bounds/whole_model.hpp"

#include <algorithm>
#include <utility>

#include "schedule/forecast.hpp"
#include "schedule/uses.hpp"

namespace um::whole {
namespace {

class model_builder {
 public:
  model_builder(const problem& p, const std::vector<compute>& order, allowed what)
      : p_(p), g_(p.network), what_(what), uses_(uses_of(p.network, order)), gaps_(gaps_of(g_, uses_)) {
    m_.count = order.size();
    for (const compute& c : order) {
      m_.time.push_back(static_cast<double>(p.costs[c.what].time));
      m_.again.push_back(static_cast<double>(time_again(p, c.what)));
      m_.unit += m_.time.back();
    }
    for (std::vector<double>* times : {&m_.time, &m_.again}) {
      for (double& t : *times) t /= m_.unit;
    }
    m_.fixed.assign(2 * m_.count, 0);
    add_operands();
    add_values();
    add_needs();
    constexpr double rounding = 1e-9;
    m_.feasible = m_.fixed.empty() || std::ranges::max(m_.fixed) <= 1 + rounding;
    std::vector<double> all = m_.fixed;
    for (const value& v : m_.values) {
      for (const absence& s : v.away) {
        for (std::size_t i = s.first; i < s.last; ++i) all[i] += v.bytes;
      }
    }
    m_.all_fits = all.empty() || std::ranges::max(all) <= 1 + rounding;
  }
  model take() { return std::move(m_); }

 private:
  double bytes_of(part_id part) const {
    return static_cast<double>(uses_.parts[part].bytes) / static_cast<double>(p_.budget);
  }
  bool is_small(part_id part) const { return bytes_of(part) < 1.0 / 2000; }
  role use_of(part_id part) const { return g_.tensors[uses_.parts[part].what].use; }

  // Bytes that an output shares with the input whose place it may take.
  double shared_at(position at) const {
    const op& o = g_.ops[uses_.order[static_cast<std::size_t>(at)].what];
    if (!o.alias) return 0;
    const part_id from = uses_.first_part[o.in[o.alias->input]],
                  to = uses_.first_part[o.out[o.alias->output]];
    const bool later = std::ranges::any_of(
        gaps_, [&](const gap& e) { return e.part == from && e.last == at && !(e.again && what_.repeats); });
    const bool next = std::ranges::any_of(uses_.of_part[from], [&](const use& u) { return u.at == at + 1; });
    if (from == to || later || next || is_small(from)) return 0;
    return std::min(bytes_of(from), bytes_of(to));
  }

  void add_operands() {
    for (position at = 0; at < uses_.end(); ++at) {
      double sum = -shared_at(at);
      for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)])
        sum += is_small(x.which) ? 0 : bytes_of(x.which);
      for (const int half : {0, 1}) m_.fixed[static_cast<std::size_t>(2 * at + half)] += sum;
    }
  }

  void add_values() {
    const auto rate = [](std::uint64_t r) { return r == 0 ? 0.0 : 1e9 / static_cast<double>(r); };
    for (auto at = gaps_.begin(); at != gaps_.end();) {
      const auto same = [&](const gap& e) { return e.part == at->part && e.producer == at->producer; };
      const auto end = std::find_if_not(at, gaps_.end(), same);
      if (!is_small(at->part)) {
        value v;
        const auto bytes = static_cast<double>(uses_.parts[at->part].bytes);
        v.bytes = bytes_of(at->part);
        v.out = bytes * rate(p_.on.link_to_host_bytes_per_s) / m_.unit;
        v.in = bytes * rate(p_.on.link_to_device_bytes_per_s) / m_.unit;
        v.made = static_cast<std::size_t>(2 * (at->producer + 1));
        v.producer = static_cast<std::size_t>(std::max(at->producer, 0));
        v.clean = at->producer < 0;
        v.from_home = at->last < 0;
        v.stays_home = std::prev(end)->next >= uses_.end();
        for (auto e = at; e != end; ++e) {
          v.away.push_back({static_cast<std::size_t>(2 * (e->last + 1)),
                            static_cast<std::size_t>(2 * e->next),
                            what_.repeats && e->again && e->last >= 0 && e->next < uses_.end()});
        }
        add(std::move(v));
      }
      at = end;
    }
  }

  // A value that can neither leave nor be computed again counts as fixed.
  void add(value v) {
    const bool some = std::ranges::any_of(v.away, &absence::recomputable);
    for (absence& s : v.away) {
      if (what_.swaps || s.recomputable) continue;
      for (std::size_t i = s.first; i < s.last; ++i) m_.fixed[i] += v.bytes;
      s.last = s.first;
    }
    if (what_.swaps || some) m_.values.push_back(std::move(v));
  }

  // A recomputation needs inputs that are dead by then. Other inputs are not required: when they are resident
  // is not known here.
  void add_needs() {
    m_.needs.resize(m_.count);
    m_.large_outputs.assign(m_.count, 0);
    std::vector<bool> has_gaps(uses_.parts.size(), false);
    for (const gap& e : gaps_) has_gaps[e.part] = true;
    for (const value& v : m_.values) {
      if (std::ranges::any_of(v.away, &absence::recomputable)) ++m_.large_outputs[v.producer];
    }
    for (position at = 0; at < uses_.end(); ++at) {
      for (const touched_part& x : uses_.touched_again(at)) {
        if (x.mode != access_mode::read || has_gaps[x.which] || persists(use_of(x.which))) continue;
        const std::vector<use>& all = uses_.of_part[x.which];
        const bool once = all.front().at < at &&
                          std::ranges::count(all, access_mode::read, &use::mode) == std::ssize(all) - 1;
        if (once) m_.needs[static_cast<std::size_t>(at)].push_back(static_cast<std::size_t>(all.front().at));
      }
    }
  }

  const problem& p_;
  const graph& g_;
  allowed what_;
  use_table uses_;
  std::vector<gap> gaps_;
  model m_;
};

}  // namespace

model model_of(const problem& p, const std::vector<compute>& order, allowed what) {
  return model_builder(p, order, what).take();
}

}  // namespace um::whole
