#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

// One table serves reading, writing and the check of "estimated".
template <class T>
struct quantity {
  const char* name;
  std::variant<std::uint64_t T::*, nanoseconds T::*> member;
  std::int64_t least = 1;
  bool may_be_absent = false;  // then its default: older files, or no such units
};

using m = machine;
const std::vector<quantity<machine>>& machine_quantities() {
  static const std::vector<quantity<machine>> all = {
      {"device_bytes", &m::device_bytes},
      {"host_bytes", &m::host_bytes},
      {"multiprocessors", &m::multiprocessors},
      {"fp32_flops_per_s", &m::fp32_flops_per_s},
      {"tf32_flops_per_s", &m::tf32_flops_per_s, 0, true},
      {"bf16_flops_per_s", &m::bf16_flops_per_s, 0, true},
      {"device_bytes_per_s", &m::device_bytes_per_s},
      {"link_to_device_bytes_per_s", &m::link_to_device_bytes_per_s},
      {"link_to_host_bytes_per_s", &m::link_to_host_bytes_per_s},
      {"link_both_bytes_per_s", &m::link_both_bytes_per_s},
      {"launch_ns", &m::launch_ns, 0},
      {"copy_ns", &m::copy_ns, 0},
  };
  return all;
}

using u = uvm_costs;
const std::vector<quantity<uvm_costs>>& uvm_quantities() {
  static const std::vector<quantity<uvm_costs>> all = {
      {"interrupt_ns", &u::interrupt_ns, 0},
      {"batch_ns", &u::batch_ns, 0},
      {"fault_ns", &u::fault_ns, 0},
      {"batch_granules", &u::batch_granules},
      {"read_batches_percent", &u::read_batches_percent, 100, true},
      {"service_ns", &u::service_ns, 0},
      {"chunk_ns", &u::chunk_ns, 0, true},
      {"first_visit_ns", &u::first_visit_ns, 0},
      {"granule_ns", &u::granule_ns, 0, true},
      {"issue_copy_ns", &u::issue_copy_ns, 0, true},
      {"host_unmap_ns", &u::host_unmap_ns, 0},
      {"page_fault_ns", &u::page_fault_ns, 0},
      {"migrate_copy_ns", &u::migrate_copy_ns, 0},
      {"host_chunk_bytes", &u::host_chunk_bytes},
      {"page_copy_ns", &u::page_copy_ns, 0},
      {"evict_ns", &u::evict_ns, 0},
      {"host_populate_ns", &u::host_populate_ns, 0},
      {"host_clear_ns", &u::host_clear_ns, 0, true},
      {"host_map_page_ns", &u::host_map_page_ns, 0},
      {"host_fault_ns", &u::host_fault_ns, 0},
      {"prefetch_call_ns", &u::prefetch_call_ns, 0},
      {"prefetch_queued_ns", &u::prefetch_queued_ns, 0, true},
      {"prefetch_to_host_call_ns", &u::prefetch_to_host_call_ns, 0},
      {"prefetch_to_host_beside_percent", &u::prefetch_to_host_beside_percent, 1, true},
      {"prefetch_to_host_beside_faults_percent", &u::prefetch_to_host_beside_faults_percent, 1, true},
      {"faults_beside_prefetch_percent", &u::faults_beside_prefetch_percent, 1, true},
      {"prefetch_block_ns", &u::prefetch_block_ns, 0},
      {"populate_ns", &u::populate_ns, 0, true},
      {"discard_block_ns", &u::discard_block_ns, 0},
      {"remote_read_bytes_per_s", &u::remote_read_bytes_per_s},
      {"remote_write_bytes_per_s", &u::remote_write_bytes_per_s},
      {"access_counter_threshold", &u::access_counter_threshold, 0},
  };
  return all;
}

std::vector<std::string> known_figures() {
  std::vector<std::string> known;
  for (const auto& q : machine_quantities()) known.emplace_back(q.name);
  for (const auto& q : uvm_quantities()) known.push_back(std::string("uvm.") + q.name);
  return known;
}

template <class T>
void write(const std::vector<quantity<T>>& all, const T& from, json& out) {
  for (const quantity<T>& q : all) {
    std::visit([&](auto member) { out[q.name] = from.*member; }, q.member);
  }
}

template <class T>
void read(const std::vector<quantity<T>>& all, fields& f, T& to) {
  for (const quantity<T>& q : all) {
    if (q.may_be_absent && !f.has(q.name)) continue;
    const std::int64_t number = f.integer(q.name, q.least);
    std::visit(overloaded{[&](std::uint64_t T::* member) { to.*member = static_cast<std::uint64_t>(number); },
                          [&](nanoseconds T::* member) { to.*member = number; }},
               q.member);
  }
}

// Those that were not measured stay as they are.
template <class T>
void set_figures(const std::vector<quantity<T>>& all, const std::string& prefix,
                 const std::map<std::string, measure::spread>& measured, T& to,
                 std::vector<std::string>& estimated) {
  for (const quantity<T>& q : all) {
    const auto found = measured.find(prefix + q.name);
    if (found == measured.end()) {
      estimated.push_back(prefix + q.name);
      continue;
    }
    const double value = found->second.typical;
    std::visit(overloaded{[&](std::uint64_t T::* member) {
                            to.*member = static_cast<std::uint64_t>(std::llround(value));
                          },
                          [&](nanoseconds T::* member) { to.*member = std::llround(value); }},
               q.member);
  }
}

void read_uvm(fields f, uvm_costs& to) {
  read(uvm_quantities(), f, to);
  if (to.batch_granules > 256)
    refuse(f.where("batch_granules"), "the driver takes 256 faults a batch at most");
  if (to.host_chunk_bytes != 4 * KiB && to.host_chunk_bytes != 64 * KiB && to.host_chunk_bytes != 2 * MiB) {
    refuse(f.where("host_chunk_bytes"), "must be 4096, 65536 or 2097152");
  }
  const std::array<std::pair<const char*, std::uint64_t>, 3> shares{
      {{"prefetch_to_host_beside_percent", to.prefetch_to_host_beside_percent},
       {"prefetch_to_host_beside_faults_percent", to.prefetch_to_host_beside_faults_percent},
       {"faults_beside_prefetch_percent", to.faults_beside_prefetch_percent}}};
  for (const auto& [name, percent] : shares) {
    if (percent > 100) refuse(f.where(name), "must be 1 to 100");
  }
  f.finish();
}

}  // namespace

json json_of(const machine& from) {
  json out{{"schema", 1}, {"name", from.name}, {"source", from.source}, {"calibrated", from.calibrated}};
  write(machine_quantities(), from, out);
  write(uvm_quantities(), from.uvm, out["uvm"]);
  out["estimated"] = from.estimated;
  return out;
}

machine machine_from(const json& value, const place& at) {
  fields f(value, at);
  machine to;
  f.schema();
  to.name = f.text("name");
  if (!is_plain_name(to.name)) refuse(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  to.source = f.text("source");
  to.calibrated = f.boolean("calibrated");
  read(machine_quantities(), f, to);
  read_uvm(f.object("uvm"), to.uvm);
  const std::vector<std::string> known = known_figures();
  for (const auto& [figure, where] : f.list("estimated")) {
    to.estimated.push_back(known[as_one_of(*figure, where, known)]);
  }
  if (f.has("calibration")) check_calibration(f.object("calibration"));
  f.finish();
  return to;
}

machine with_figures(machine base, const std::map<std::string, measure::spread>& measured) {
  base.estimated.clear();
  set_figures(machine_quantities(), "", measured, base, base.estimated);
  set_figures(uvm_quantities(), "uvm.", measured, base.uvm, base.estimated);
  return base;
}

std::string to_json(const machine& from) {
  return dump_indented(json_of(from));
}

machine machine_from_json(std::string_view text, const std::string& source) {
  return machine_from(parse_json(text, source), {source, ""});
}

}  // namespace um
