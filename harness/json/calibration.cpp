#include <algorithm>
#include <cmath>
#include <utility>

#include "core/figures.hpp"
#include "harness/json/document.hpp"

namespace um {
namespace {

bool is_estimated(const machine& m, std::string_view name) {
  return std::ranges::find(m.estimated, name) != m.estimated.end();
}

// Lowers estimates, taken from another machine, that exceed the measured rate of this machine's link.
void clamp_estimates_to_link(machine& m) {
  const std::uint64_t in = m.link_to_device_bytes_per_s, out = m.link_to_host_bytes_per_s;
  if (is_estimated(m, "link_both_bytes_per_s")) {
    m.link_both_bytes_per_s = std::clamp(m.link_both_bytes_per_s, std::max(in, out), in + out);
  }
  const auto hold = [&](const char* name, std::uint64_t& value, std::uint64_t limit) {
    if (is_estimated(m, name)) value = std::min(value, limit);
  };
  hold("uvm.remote_read_bytes_per_s", m.uvm.remote_read_bytes_per_s, in);
  hold("uvm.remote_write_bytes_per_s", m.uvm.remote_write_bytes_per_s, out);
}

// The bounds of a figure include the quartiles of its samples.
void widen_by_samples(uncertain_figure& width, const figure& of, const measure::spread& samples) {
  const bool is_cost = of.unit == "ns" || of.unit == "bytes/s";
  if (!is_cost || samples.lower >= samples.upper) return;
  const auto held = [&](double value) {
    const auto min_value = static_cast<double>(of.min_value), max_value = static_cast<double>(of.max_value);
    return static_cast<std::int64_t>(std::llround(std::clamp(value, min_value, std::min(max_value, 9e18))));
  };
  width.min_value = std::min(width.min_value, held(samples.lower));
  width.max_value = std::max(width.max_value, held(samples.upper));
}

}  // namespace

machine with_measured_figures(machine base, const measure::figures& found) {
  base.estimated.clear();
  base.borrowed.clear();
  base.operators.clear();
  const std::vector<uncertain_figure> uncertain_before = std::exchange(base.uncertain_figures, {});
  for (const figure& f : figures()) {
    const auto measured = found.spread_of_figure.find(std::string(f.name));
    const bool known =
        measured != found.spread_of_figure.end() && !found.inferred.contains(std::string(f.name));
    if (!known) base.estimated.emplace_back(f.name);
    if (measured != found.spread_of_figure.end()) set_value(base, f, std::llround(measured->second.typical));
    uncertain_figure width{std::string(f.name), value_of(base, f), value_of(base, f)};
    if (measured != found.spread_of_figure.end()) widen_by_samples(width, f, measured->second);
    const auto before = std::ranges::find(uncertain_before, f.name, &uncertain_figure::name);
    if (!known && before != uncertain_before.end()) {
      width.min_value = std::min(width.min_value, before->min_value);
      width.max_value = std::max(width.max_value, before->max_value);
    }
    if (width.min_value < width.max_value) base.uncertain_figures.push_back(std::move(width));
  }
  clamp_estimates_to_link(base);
  return base;
}

std::string to_json(const measure::readings& all) {
  return dump_indented(json(all));
}

measure::readings readings_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  const json_place top{source, ""};
  if (!document.is_object()) throw_bad_value(top, "is not an object");
  measure::readings all;
  for (const auto& [name, values] : document.items()) {
    const json_place at = place_of_field(top, name);
    all[name] = read_value<std::vector<double>>(values, at, plain_format{});
    if (all[name].empty()) throw_bad_value(at, "has no samples");
  }
  return all;
}

}  // namespace um
