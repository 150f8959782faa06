#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/figures.hpp"
#include "harness/io/errors.hpp"
#include "harness/json/document.hpp"
#include "harness/json/machines.hpp"

namespace um {
namespace {

constexpr std::string_view driver = "uvm.";

bool is_driver_figure(const figure& f) {
  return f.name.starts_with(driver);
}
// Name of the figure within the object that holds it.
std::string json_field_of(const figure& f) {
  return std::string(is_driver_figure(f) ? f.name.substr(driver.size()) : f.name);
}

std::vector<std::string> names_of_figures() {
  std::vector<std::string> names;
  for (const figure& f : figures()) names.emplace_back(f.name);
  return names;
}

// The machine file of the h200, to which fitted figures were fitted: files without them take its values.
const json& standard_machine_file() {
  static const json file = [] {
    const auto all = embedded_machines();
    const auto at = std::ranges::find(all, std::string(standard_machine) + ".json", &machine_text::file_name);
    return parse_json(at->text, at->file_name);
  }();
  return file;
}

std::int64_t standard_value(const figure& f) {
  return (is_driver_figure(f) ? standard_machine_file().at("uvm") : standard_machine_file())
      .at(json_field_of(f))
      .get<std::int64_t>();
}

void read_figures(fields& object, bool of_driver, machine& to) {
  for (const figure& f : figures()) {
    if (is_driver_figure(f) != of_driver) continue;
    const std::string field = json_field_of(f);
    if (!f.is_optional || object.has(field)) {
      set_value(to, f, object.integer(field, f.min_value, f.max_value));
    } else if (f.source == figure_source::fitted) {
      to.borrowed.emplace_back(f.name);
      set_value(to, f, standard_value(f));
    }
  }
}

// Lists all missing figures in one message.
void require_all(const json& document, const std::string& source) {
  if (!document.is_object()) return;
  std::vector<std::string> missing;
  const auto at = document.find("uvm");
  const json nothing = json::object();
  const json& of_driver = at == document.end() || !at->is_object() ? nothing : *at;
  for (const char* name : {"schema", "name", "source", "calibrated", "estimated"}) {
    if (!document.contains(name)) missing.emplace_back(name);
  }
  for (const figure& f : figures()) {
    const json& object = is_driver_figure(f) ? of_driver : document;
    if (!f.is_optional && !object.contains(json_field_of(f))) missing.emplace_back(f.name);
  }
  if (missing.size() < 2) return;  // the reader names a single missing figure
  throw input_error(fmt::format("{}: {} fields are missing; add them: {}", source, missing.size(),
                                fmt::join(missing, ", ")));
}

void read_driver(fields object, machine& to) {
  read_figures(object, true, to);
  const byte_count chunk = to.uvm.host_chunk_bytes;
  if (chunk != 4 * KiB && chunk != 64 * KiB && chunk != 2 * MiB) {
    throw_bad_value(object.where("host_chunk_bytes"), "must be 4096, 65536 or 2097152");
  }
  object.finish();
}

bool is_estimated(const machine& m, std::string_view name) {
  return std::ranges::find(m.estimated, name) != m.estimated.end();
}

// Lowers estimates of another machine that exceed the measured rate of this one's link.
void clamp_estimates_to_link(machine& m) {
  const std::uint64_t in = m.link_to_device_bytes_per_s, out = m.link_to_host_bytes_per_s;
  if (is_estimated(m, "link_both_bytes_per_s")) {
    m.link_both_bytes_per_s = std::clamp(m.link_both_bytes_per_s, std::max(in, out), in + out);
  }
  const auto hold = [&](const char* name, std::uint64_t& value, std::uint64_t most) {
    if (is_estimated(m, name)) value = std::min(value, most);
  };
  hold("uvm.remote_read_bytes_per_s", m.uvm.remote_read_bytes_per_s, in);
  hold("uvm.remote_write_bytes_per_s", m.uvm.remote_write_bytes_per_s, out);
}

// Tolerance for measured figures that contradict each other.
constexpr double slack = 1.1;

// Checks the rates of the link: both ways together at most the sum of the two and at least each of them;
// remote access at most the rate of the link.
void check_link(const machine& target, const fields& f) {
  const auto in = static_cast<double>(target.link_to_device_bytes_per_s);
  const auto out = static_cast<double>(target.link_to_host_bytes_per_s);
  const auto both = static_cast<double>(target.link_both_bytes_per_s);
  if (both > slack * (in + out)) {
    throw_bad_value(f.where("link_both_bytes_per_s"), "is more than both ways of the link together");
  }
  if (slack * both < std::max(in, out))
    throw_bad_value(f.where("link_both_bytes_per_s"), "is less than one way alone");
  if (static_cast<double>(target.uvm.remote_read_bytes_per_s) > slack * in) {
    throw_bad_value(f.where("uvm.remote_read_bytes_per_s"), "is more than link_to_device_bytes_per_s");
  }
  if (static_cast<double>(target.uvm.remote_write_bytes_per_s) > slack * out) {
    throw_bad_value(f.where("uvm.remote_write_bytes_per_s"), "is more than link_to_host_bytes_per_s");
  }
}

// The bounds of a figure include the quartiles of its samples.
void widen_by_samples(figure_bounds& width, const figure& of, const measure::spread& samples) {
  const bool is_cost = of.unit == "ns" || of.unit == "bytes/s";
  if (!is_cost || samples.lower >= samples.upper) return;
  const auto held = [&](double value) {
    const auto least = static_cast<double>(of.min_value), most = static_cast<double>(of.max_value);
    return static_cast<std::int64_t>(std::llround(std::clamp(value, least, std::min(most, 9e18))));
  };
  width.min_value = std::min(width.min_value, held(samples.lower));
  width.max_value = std::max(width.max_value, held(samples.upper));
}

}  // namespace

void describe(auto& v, operator_speed& p) {
  v.field("kind", p.kind, constant_text{operator_kinds()});
  v.field("precision", p.precision,
          constant_text{{enum_names<precision>.begin(), enum_names<precision>.end()}});
  std::optional<std::int64_t> filter;
  if (p.filter != 0) filter = p.filter;
  v.optional_field("filter", filter, plain_format{1, 1 << 20});
  p.filter = filter.value_or(0);
  v.field("percent", p.percent, plain_format{1, 1000});
}

void describe(auto& v, figure_bounds& w) {
  v.field("figure", w.name, constant_text{names_of_figures()});
  const figure& of = *std::ranges::find(figures(), w.name, &figure::name);
  v.field("least", w.min_value, plain_format{of.min_value, of.max_value});
  v.field("most", w.max_value, plain_format{w.min_value, of.max_value});
}

json json_of(const machine& from) {
  json out{{"schema", 1}, {"name", from.name}, {"source", from.source}, {"calibrated", from.calibrated}};
  for (const figure& f : figures()) {
    if (std::ranges::find(from.borrowed, f.name) != from.borrowed.end()) continue;
    (is_driver_figure(f) ? out["uvm"] : out)[json_field_of(f)] = value_of(from, f);
  }
  out["estimated"] = from.estimated;
  if (!from.operators.empty()) out["operators"] = write_value(from.operators, plain_format{});
  if (!from.bounds.empty()) out["widths"] = write_value(from.bounds, plain_format{});
  return out;
}

std::string to_json(const machine& from) {
  return dump_indented(json_of(from));
}

machine machine_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  require_all(document, source);
  fields f(document, {source, ""});
  machine to;
  f.schema();
  to.name = f.text("name");
  if (!is_plain_name(to.name))
    throw_bad_value(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  to.source = f.text("source");
  to.calibrated = f.boolean("calibrated");
  read_figures(f, false, to);
  read_driver(f.object("uvm"), to);
  check_link(to, f);
  const std::vector<std::string> known = names_of_figures();
  for (const auto& [figure, where] : f.list("estimated")) {
    to.estimated.push_back(known[index_of_choice(*figure, where, known)]);
  }
  if (f.has("operators"))
    to.operators =
        read_value<std::vector<operator_speed>>(f.at("operators"), f.where("operators"), plain_format{});
  if (f.has("widths"))
    to.bounds = read_value<std::vector<figure_bounds>>(f.at("widths"), f.where("widths"), plain_format{});
  if (f.has("calibration")) check_calibration(f.at("calibration"), f.where("calibration"));
  f.finish();
  return to;
}

machine with_measured_figures(machine base, const measure::figures& found) {
  base.estimated.clear();
  base.borrowed.clear();
  base.operators.clear();
  const std::vector<figure_bounds> widths_before = std::exchange(base.bounds, {});
  for (const figure& f : figures()) {
    const auto measured = found.spread_of_figure.find(std::string(f.name));
    const bool known =
        measured != found.spread_of_figure.end() && !found.inferred.contains(std::string(f.name));
    if (!known) base.estimated.emplace_back(f.name);
    if (measured != found.spread_of_figure.end()) set_value(base, f, std::llround(measured->second.typical));
    figure_bounds width{std::string(f.name), value_of(base, f), value_of(base, f)};
    if (measured != found.spread_of_figure.end()) widen_by_samples(width, f, measured->second);
    const auto before = std::ranges::find(widths_before, f.name, &figure_bounds::name);
    if (!known && before != widths_before.end()) {
      width.min_value = std::min(width.min_value, before->min_value);
      width.max_value = std::max(width.max_value, before->max_value);
    }
    if (width.min_value < width.max_value) base.bounds.push_back(std::move(width));
  }
  clamp_estimates_to_link(base);
  return base;
}

std::string digest_of_figures(const machine& of) {
  json values = json::array();
  for (const figure& f : figures()) values.push_back({f.name, value_of(of, f)});
  if (!of.operators.empty()) values.push_back(write_value(of.operators, plain_format{}));
  if (!of.bounds.empty()) values.push_back(write_value(of.bounds, plain_format{}));
  return digest_text(dump_line(values), 16);
}

}  // namespace um
