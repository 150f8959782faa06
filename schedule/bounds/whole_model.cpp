#include "schedule/bounds/whole_model.hpp"

#include <algorithm>
#include <utility>

#include "schedule/forecast.hpp"
#include "schedule/uses.hpp"

namespace um::whole {
namespace {

class model_builder {
 public:
  model_builder(const problem& p, const std::vector<compute>& order, allowed_moves allowed)
      : problem_(p),
        g_(p.network),
        allowed_(allowed),
        uses_(make_use_table(p.network, order)),
        gaps_(find_gaps(g_, uses_)) {
    model_.position_count = order.size();
    for (const compute& c : order) {
      model_.compute_time.push_back(static_cast<double>(p.operator_costs[c.op].time));
      model_.recompute_time.push_back(static_cast<double>(recompute_time(p, c.op)));
      model_.unit_ns += model_.compute_time.back();
    }
    for (std::vector<double>* times : {&model_.compute_time, &model_.recompute_time}) {
      for (double& t : *times) t /= model_.unit_ns;
    }
    model_.fixed_bytes.assign(2 * model_.position_count, 0);
    add_operands();
    add_values();
    find_room();
    add_required_positions();
    constexpr double rounding = 1e-9;
    model_.is_feasible = model_.fixed_bytes.empty() || std::ranges::max(model_.fixed_bytes) <= 1 + rounding;
    std::vector<double> all = model_.fixed_bytes;
    for (const value& v : model_.values) {
      for (const absence& s : v.absences) {
        for (std::size_t i = s.begin; i < s.end; ++i) all[i] += v.bytes;
      }
    }
    model_.fits_entirely = all.empty() || std::ranges::max(all) <= 1 + rounding;
  }
  model take() { return std::move(model_); }

 private:
  double budget_share(part_id part) const {
    return static_cast<double>(uses_.parts[part].bytes) / static_cast<double>(problem_.budget);
  }
  bool is_small(part_id part) const { return budget_share(part) < 1.0 / 2000; }
  role role_of(part_id part) const { return g_.tensors[uses_.parts[part].tensor].role; }

  // Bytes that an output shares with the input that it may replace in place.
  double in_place_bytes(position at) const {
    const op& o = g_.ops[uses_.order[static_cast<std::size_t>(at)].op];
    if (!o.alias) return 0;
    const part_id from = uses_.first_part[o.in[o.alias->input]],
                  to = uses_.first_part[o.out[o.alias->output]];
    const bool later = std::ranges::any_of(gaps_, [&](const gap& e) {
      return e.part == from && e.last_use == at && !(e.is_recomputable && allowed_.recomputes);
    });
    const bool next =
        std::ranges::any_of(uses_.uses_of_part[from], [&](const use& u) { return u.at == at + 1; });
    if (from == to || later || next || is_small(from)) return 0;
    return std::min(budget_share(from), budget_share(to));
  }

  void add_operands() {
    for (position at = 0; at < uses_.end(); ++at) {
      double sum = -in_place_bytes(at);
      for (const touched_part& x : uses_.touched_parts[static_cast<std::size_t>(at)])
        sum += is_small(x.part) ? 0 : budget_share(x.part);
      for (const int half : {0, 1}) model_.fixed_bytes[static_cast<std::size_t>(2 * at + half)] += sum;
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
        v.bytes = budget_share(at->part);
        v.copy_out_time = bytes * rate(problem_.target.link_to_host_bytes_per_s) / model_.unit_ns;
        v.copy_in_time = bytes * rate(problem_.target.link_to_device_bytes_per_s) / model_.unit_ns;
        v.first_leave = static_cast<std::size_t>(2 * (at->producer + 1));
        v.producer = static_cast<std::size_t>(std::max(at->producer, 0));
        v.leaves_without_copy = at->producer < 0;
        v.starts_on_host = at->last_use < 0;
        v.ends_on_host = std::prev(end)->next_use >= uses_.end();
        for (auto e = at; e != end; ++e) {
          v.absences.push_back(
              {static_cast<std::size_t>(2 * (e->last_use + 1)), static_cast<std::size_t>(2 * e->next_use),
               allowed_.recomputes && e->is_recomputable && e->last_use >= 0 && e->next_use < uses_.end()});
        }
        add_value(std::move(v));
      }
      at = end;
    }
  }

  // A value that can neither leave nor be computed again counts as fixed bytes.
  void add_value(value v) {
    const bool some = std::ranges::any_of(v.absences, &absence::is_recomputable);
    for (absence& s : v.absences) {
      if (allowed_.swaps || s.is_recomputable) continue;
      for (std::size_t i = s.begin; i < s.end; ++i) model_.fixed_bytes[i] += v.bytes;
      s.end = s.begin;
    }
    if (allowed_.swaps || some) model_.values.push_back(std::move(v));
  }

  // Plans move values whole: one that does not fit beside the operands of an instant is away then.
  void find_room() {
    constexpr double rounding = 1e-9;
    for (value& v : model_.values) {
      for (absence& s : v.absences) {
        for (std::size_t i = s.begin; i < s.end; ++i) {
          if (model_.fixed_bytes[i] + v.bytes <= 1 + rounding) continue;
          if (!s.must_leave()) s.first_without_room = i;
          s.room_again = i + 1;
        }
      }
    }
  }

  // A recomputation requires inputs that are dead by then. Other inputs are not required, since it is not
  // known here when they are on the device.
  void add_required_positions() {
    model_.required_positions.resize(model_.position_count);
    model_.recomputable_value_count.assign(model_.position_count, 0);
    std::vector<bool> has_gaps(uses_.parts.size(), false);
    for (const gap& e : gaps_) has_gaps[e.part] = true;
    for (const value& v : model_.values) {
      if (std::ranges::any_of(v.absences, &absence::is_recomputable))
        ++model_.recomputable_value_count[v.producer];
    }
    for (position at = 0; at < uses_.end(); ++at) {
      for (const touched_part& x : uses_.touched_by_recompute(at)) {
        if (x.mode != access_mode::read || has_gaps[x.part] || persists(role_of(x.part))) continue;
        const std::vector<use>& all = uses_.uses_of_part[x.part];
        const bool once = all.front().at < at &&
                          std::ranges::count(all, access_mode::read, &use::mode) == std::ssize(all) - 1;
        if (once)
          model_.required_positions[static_cast<std::size_t>(at)].push_back(
              static_cast<std::size_t>(all.front().at));
      }
    }
  }

  const problem& problem_;
  const graph& g_;
  allowed_moves allowed_;
  use_table uses_;
  std::vector<gap> gaps_;
  model model_;
};

}  // namespace

model make_model(const problem& p, const std::vector<compute>& order, allowed_moves allowed) {
  return model_builder(p, order, allowed).take();
}

}  // namespace um::whole
