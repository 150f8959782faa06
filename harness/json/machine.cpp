#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/figures.hpp"
#include "harness/io/errors.hpp"
#include "harness/json/document.hpp"
#include "harness/json/input_files.hpp"

namespace um {
namespace {

constexpr std::string_view uvm_prefix = "uvm.";

bool is_uvm_figure(const figure& f) {
  return f.name.starts_with(uvm_prefix);
}
// Name of the figure within its object.
std::string json_field_of(const figure& f) {
  return std::string(is_uvm_figure(f) ? f.name.substr(uvm_prefix.size()) : f.name);
}

std::vector<std::string> names_of_figures() {
  std::vector<std::string> names;
  for (const figure& f : figures()) names.emplace_back(f.name);
  return names;
}

// The machine file of the h200, on which the fitted figures were fitted. Files without them use its values.
const json& standard_machine_file() {
  static const json file = [] {
    const auto all = embedded_machines();
    const auto at = std::ranges::find(all, std::string(standard_machine) + ".json", &machine_text::file_name);
    return parse_json(at->text, at->file_name);
  }();
  return file;
}

std::int64_t standard_value(const figure& f) {
  return (is_uvm_figure(f) ? standard_machine_file().at("uvm") : standard_machine_file())
      .at(json_field_of(f))
      .get<std::int64_t>();
}

// Lists all missing figures in one message.
void require_all_figures(const json& document, const std::string& source) {
  if (!document.is_object()) return;
  std::vector<std::string> missing;
  const auto at = document.find("uvm");
  const json nothing = json::object();
  const json& of_uvm = at == document.end() || !at->is_object() ? nothing : *at;
  for (const char* name : {"schema", "name", "source", "calibrated", "estimated"}) {
    if (!document.contains(name)) missing.emplace_back(name);
  }
  for (const figure& f : figures()) {
    const json& object = is_uvm_figure(f) ? of_uvm : document;
    if (!f.is_optional && !object.contains(json_field_of(f))) missing.emplace_back(f.name);
  }
  if (missing.size() < 2) return;  // one missing figure is reported when it is read
  throw input_error(fmt::format("{}: {} fields are missing; add them: {}", source, missing.size(),
                                fmt::join(missing, ", ")));
}

// Tolerance for measured figures that contradict each other.
constexpr double slack = 1.1;

// Checks the rates of the link: both ways together at most the sum of the two and at least each of them;
// remote access at most the rate of the link.
void check_link(const machine& target, const json_place& at) {
  const auto in = static_cast<double>(target.link_to_device_bytes_per_s);
  const auto out = static_cast<double>(target.link_to_host_bytes_per_s);
  const auto both = static_cast<double>(target.link_both_bytes_per_s);
  if (both > slack * (in + out)) {
    throw_bad_value(place_of_field(at, "link_both_bytes_per_s"),
                    "is more than both ways of the link together");
  }
  if (slack * both < std::max(in, out))
    throw_bad_value(place_of_field(at, "link_both_bytes_per_s"), "is less than one way alone");
  if (static_cast<double>(target.uvm.remote_read_bytes_per_s) > slack * in) {
    throw_bad_value(place_of_field(at, "uvm.remote_read_bytes_per_s"),
                    "is more than link_to_device_bytes_per_s");
  }
  if (static_cast<double>(target.uvm.remote_write_bytes_per_s) > slack * out) {
    throw_bad_value(place_of_field(at, "uvm.remote_write_bytes_per_s"),
                    "is more than link_to_host_bytes_per_s");
  }
}

struct figure_format {
  const figure& of;
  bool is_chunk() const { return of.name == "uvm.host_chunk_bytes"; }
  json write(std::int64_t value) const { return value; }
  std::int64_t read(const json& value, const json_place& at) const {
    const std::int64_t read = integer_of_value(value, at, of.min_value, of.max_value);
    if (is_chunk() && std::ranges::find(chunks, read) == chunks.end())
      throw_bad_value(at, "must be 4096, 65536 or 2097152");
    return read;
  }
  json schema() const {
    if (is_chunk()) return {{"enum", chunks}};
    return plain_format{of.min_value, of.max_value}.schema<std::int64_t>();
  }
  static constexpr std::array<std::int64_t, 3> chunks{4 * KiB, 64 * KiB, 2 * MiB};
};

// The figures of the driver, which are a separate object in machine files.
struct uvm_figures {
  machine of;
};

// Spreads of the samples that a machine file stores from its calibration. Readers of a machine do not need
// them.
struct calibration_spreads {
  std::map<std::string, measure::spread> figures, samples;
  std::vector<std::string> notes;
};

void describe_figures(auto& v, machine& m, bool of_uvm) {
  for (const figure& f : figures()) {
    if (is_uvm_figure(f) != of_uvm) continue;
    const std::string name = json_field_of(f);
    const bool is_borrowed = std::ranges::find(m.borrowed, f.name) != m.borrowed.end();
    std::optional<std::int64_t> value = is_borrowed ? std::nullopt : std::optional(value_of(m, f));
    if (v.is_reader) value.reset();
    if (f.is_optional) {
      v.optional_field(name.c_str(), value, figure_format{f});
    } else {
      std::int64_t given = value.value_or(0);
      v.field(name.c_str(), given, figure_format{f});
      value = given;
    }
    if (!v.is_reader) continue;
    if (value) {
      set_value(m, f, *value);
    } else if (f.source == figure_source::fitted) {
      m.borrowed.emplace_back(f.name);
      set_value(m, f, standard_value(f));
    }
  }
}

}  // namespace

void describe(auto& v, measure::spread& s) {
  v.field("samples", s.samples, plain_format{1});
  v.field("least", s.min);
  v.field("typical", s.typical);
  v.field("most", s.max);
}

void describe(auto& v, calibration_spreads& c) {
  v.field("figures", c.figures);
  v.field("samples", c.samples);
  v.field("notes", c.notes);
}

void describe(auto& v, operator_speed& p) {
  v.field("kind", p.kind, constant_text_format{operator_kinds()});
  v.field("precision", p.precision,
          constant_text_format{{enum_names<precision>.begin(), enum_names<precision>.end()}});
  v.optional_field("filter", p.filter, plain_format{1, 1 << 20});
  v.field("percent", p.percent, plain_format{1, 1000});
}

void describe(auto& v, uncertain_figure& w) {
  v.field("figure", w.name, constant_text_format{names_of_figures()});
  const auto of = std::ranges::find(figures(), w.name, &figure::name);
  const std::int64_t min_value = of == figures().end() ? 0 : of->min_value;
  const std::int64_t max_value = of == figures().end() ? max_integer : of->max_value;
  v.field("least", w.min_value, plain_format{min_value, max_value});
  v.field("most", w.max_value, plain_format{std::max(min_value, w.min_value), max_value});
}

void describe(auto& v, uvm_figures& d) {
  describe_figures(v, d.of, true);
}

namespace {

void describe(auto& v, machine& m, std::optional<calibration_spreads>& calibration) {
  v.constant("schema", 1);
  v.field("name", m.name, plain_name);
  v.field("source", m.source);
  v.field("calibrated", m.calibrated);
  describe_figures(v, m, false);
  uvm_figures of_uvm{m};
  v.field("uvm", of_uvm);
  if (v.is_reader) {
    m.uvm = of_uvm.of.uvm;
    m.borrowed.insert(m.borrowed.end(), of_uvm.of.borrowed.begin(), of_uvm.of.borrowed.end());
  }
  v.field("estimated", m.estimated, constant_text_format{names_of_figures()});
  v.note("estimated", "figures that nobody measured");
  v.optional_field("operators", m.operators);
  v.optional_field("widths", m.uncertain_figures);
  v.optional_field("calibration", calibration);
}

json write_machine(const machine& m, std::optional<calibration_spreads> calibration) {
  machine copy = m;
  field_writer v;
  describe(v, copy, calibration);
  return std::move(v.out);
}

}  // namespace

json json_of(const machine& from) {
  return write_machine(from, std::nullopt);
}

std::string to_json(const machine& from) {
  return dump_indented(json_of(from));
}

std::string to_json(const machine& of, const measure::calibration& from) {
  return dump_indented(write_machine(
      of, calibration_spreads{from.results.spread_of_figure, from.samples, from.results.notes}));
}

machine machine_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  require_all_figures(document, source);
  const json_place at{source, ""};
  machine to;
  std::optional<calibration_spreads> any;
  field_reader v(document, at);
  describe(v, to, any);
  v.finish();
  check_link(to, at);
  return to;
}

std::string machine_schema() {
  object_schema_builder v;
  machine any;
  std::optional<calibration_spreads> calibration;
  describe(v, any, calibration);
  json made =
      schema_titled("A machine file of umbench",
                    "Made by `umbench list machine-schema`. core/machine.hpp explains the figures. Rates are "
                    "per second; 0 or no rate of tf32 or bf16: the machine has no such units.");
  made.update(v.object_schema());
  return dump_indented(made);
}

std::string digest_of_figures(const machine& of) {
  json values = json::array();
  for (const figure& f : figures()) values.push_back({f.name, value_of(of, f)});
  if (!of.operators.empty()) values.push_back(write_value(of.operators, plain_format{}));
  if (!of.uncertain_figures.empty()) values.push_back(write_value(of.uncertain_figures, plain_format{}));
  return digest_text(dump_line(values), 16);
}

}  // namespace um
