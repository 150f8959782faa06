#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/json.hpp"
#include "harness/json_fields.hpp"
#include "harness/json_parts.hpp"

namespace um {
namespace {

// One table serves reading, writing and the check of "estimated".
struct quantity {
  const char* name;
  std::variant<std::uint64_t machine::*, nanoseconds machine::*> member;
  bool may_be_zero = false;
  bool may_be_absent = false;  // then 0: files written before there was such a field, or no such units
};

const std::vector<quantity>& quantities() {
  static const std::vector<quantity> all = {
      {"device_bytes", &machine::device_bytes},
      {"host_bytes", &machine::host_bytes},
      {"fp32_flops_per_s", &machine::fp32_flops_per_s},
      {"tf32_flops_per_s", &machine::tf32_flops_per_s, true, true},
      {"bf16_flops_per_s", &machine::bf16_flops_per_s, true, true},
      {"device_bytes_per_s", &machine::device_bytes_per_s},
      {"link_to_device_bytes_per_s", &machine::link_to_device_bytes_per_s},
      {"link_to_host_bytes_per_s", &machine::link_to_host_bytes_per_s},
      {"link_both_bytes_per_s", &machine::link_both_bytes_per_s},
      {"fault_to_device_bytes_per_s", &machine::fault_to_device_bytes_per_s},
      {"first_fault_bytes_per_s", &machine::first_fault_bytes_per_s},
      {"populate_bytes_per_s", &machine::populate_bytes_per_s},
      {"discarded_write_bytes_per_s", &machine::discarded_write_bytes_per_s},
      {"prefetch_to_device_bytes_per_s", &machine::prefetch_to_device_bytes_per_s},
      {"prefetch_to_host_bytes_per_s", &machine::prefetch_to_host_bytes_per_s},
      {"evict_bytes_per_s", &machine::evict_bytes_per_s},
      {"zero_copy_bytes_per_s", &machine::zero_copy_bytes_per_s},
      {"launch_ns", &machine::launch_ns, true},
      {"copy_ns", &machine::copy_ns, true},
      {"fault_ns", &machine::fault_ns, true},
      {"prefetch_call_ns", &machine::prefetch_call_ns, true},
      {"discard_block_ns", &machine::discard_block_ns, true},
  };
  return all;
}

std::vector<std::string> estimated_from(fields& f) {
  std::vector<std::string> known, estimated;
  for (const quantity& q : quantities()) known.emplace_back(q.name);
  for (const auto& [value, at] : f.list("estimated"))
    estimated.push_back(known[as_one_of(*value, at, known)]);
  return estimated;
}

}  // namespace

json json_of(const machine_file& file) {
  json out{{"schema", 1},
           {"name", file.what.name},
           {"source", file.what.source},
           {"calibrated", file.what.calibrated}};
  for (const quantity& q : quantities()) {
    std::visit([&](auto member) { out[q.name] = file.what.*member; }, q.member);
  }
  out["estimated"] = file.estimated;
  return out;
}

machine_file machine_file_from(const json& value, const place& at) {
  fields f(value, at);
  machine_file file;
  f.schema();
  file.what.name = f.text("name");
  if (!is_plain_name(file.what.name))
    refuse(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  file.what.source = f.text("source");
  file.what.calibrated = f.boolean("calibrated");
  for (const quantity& q : quantities()) {
    if (q.may_be_absent && !f.has(q.name)) continue;
    const std::int64_t number = f.integer(q.name, q.may_be_zero ? 0 : 1);
    std::visit(
        overloaded{[&](std::uint64_t machine::* m) { file.what.*m = static_cast<std::uint64_t>(number); },
                   [&](nanoseconds machine::* m) { file.what.*m = number; }},
        q.member);
  }
  file.estimated = estimated_from(f);
  f.finish();
  return file;
}

std::string to_json(const machine_file& file) {
  return dump_indented(json_of(file));
}

machine_file machine_from_json(std::string_view text, const std::string& source) {
  return machine_file_from(parse_json(text, source), {source, ""});
}

}  // namespace um
