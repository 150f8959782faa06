#include <array>
#include <nlohmann/json.hpp>

#include "harness/json/parts.hpp"

namespace um {
namespace {

struct state_row {
  const char* name;
  std::optional<std::uint64_t> gpu_state::* member;
};
constexpr std::array<state_row, 7> state_rows{{
    {"sm_clock_mhz", &gpu_state::sm_clock_mhz},
    {"memory_clock_mhz", &gpu_state::memory_clock_mhz},
    {"temperature_c", &gpu_state::temperature_c},
    {"power_mw", &gpu_state::power_mw},
    {"pcie_generation", &gpu_state::pcie_generation},
    {"pcie_width", &gpu_state::pcie_width},
    {"other_processes", &gpu_state::other_processes},
}};

json json_of(const gpu_state& s) {
  json out = json::object();
  for (const state_row& row : state_rows) out[row.name] = or_null(s.*row.member);
  out["throttled_by"] = or_null(s.throttled_by);
  return out;
}

gpu_state state_from(const json& value, const place& at) {
  fields f(value, at);
  gpu_state s;
  for (const state_row& row : state_rows) s.*row.member = f.count_or_null(row.name);
  if (!f.is_null("throttled_by")) {
    s.throttled_by.emplace();
    for (const auto& [reason, where] : f.list("throttled_by")) {
      s.throttled_by->push_back(as_text(*reason, where));
    }
  }
  f.finish();
  return s;
}

}  // namespace

json json_of(const observation& o) {
  return {{"host_cpu_ns", or_null(o.host_cpu)},
          {"energy_uj", or_null(o.energy_uj)},
          {"gpu_before", o.before ? json_of(*o.before) : json(nullptr)},
          {"gpu_after", o.after ? json_of(*o.after) : json(nullptr)},
          {"reason", or_null(o.reason)}};
}

observation observation_from(const json& value, const place& at) {
  fields f(value, at);
  observation o;
  if (!f.is_null("host_cpu_ns")) o.host_cpu = f.integer("host_cpu_ns");
  o.energy_uj = f.count_or_null("energy_uj");
  if (!f.is_null("gpu_before")) o.before = state_from(f.at("gpu_before"), f.where("gpu_before"));
  if (!f.is_null("gpu_after")) o.after = state_from(f.at("gpu_after"), f.where("gpu_after"));
  o.reason = f.text_or_null("reason");
  f.finish();
  return o;
}

}  // namespace um
