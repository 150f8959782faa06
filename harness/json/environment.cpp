#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

bool is_time(std::string_view text) {
  constexpr std::string_view shape = "0000-00-00T00:00:00Z";
  return std::ranges::equal(text, shape, [](unsigned char c, char wanted) {
    return wanted == '0' ? std::isdigit(c) != 0 : c == static_cast<unsigned char>(wanted);
  });
}

std::map<std::string, std::string> parameters_from(const json& value, const place& at) {
  if (!value.is_object()) refuse(at, "wants an object of texts");
  std::map<std::string, std::string> parameters;
  for (const auto& [name, text] : value.items()) parameters[name] = as_text(text, inside(at, name));
  return parameters;
}

// Older files have none, or do not say what is missing.
fact_sheet facts_from(fields& f) {
  const auto part = [&](const char* name) {
    return f.has(name) ? parameters_from(f.at(name), f.where(name)) : named_facts{};
  };
  return {part("facts"), part("facts_missing")};
}

json json_of(const gpu_facts& g) {
  return {{"device", g.device},
          {"name", g.name},
          {"driver", or_null(g.driver)},
          {"memory_bytes", g.memory_bytes},
          {"compute_capability", g.compute_capability},
          {"concurrent_managed_access", g.concurrent_managed_access},
          {"pageable_memory_access", g.pageable_memory_access},
          {"cuda_driver", g.cuda_driver},
          {"cuda_runtime", g.cuda_runtime},
          {"cudnn", g.cudnn},
          {"facts", g.facts.known},
          {"facts_missing", g.facts.missing}};
}

gpu_facts gpu_from(fields f) {
  gpu_facts g;
  g.device = static_cast<int>(f.integer("device", 0, 1023));
  g.name = f.text("name");
  g.driver = f.text_or_null("driver");
  g.memory_bytes = f.count("memory_bytes");
  g.compute_capability = f.text("compute_capability");
  g.concurrent_managed_access = f.boolean("concurrent_managed_access");
  g.pageable_memory_access = f.boolean("pageable_memory_access");
  g.cuda_driver = f.text("cuda_driver");
  g.cuda_runtime = f.text("cuda_runtime");
  g.cudnn = f.text("cudnn");
  g.facts = facts_from(f);
  f.finish();
  return g;
}

json json_of(const host_facts& h) {
  return {{"os", or_null(h.os)},
          {"kernel", or_null(h.kernel)},
          {"cpu", or_null(h.cpu)},
          {"cores", or_null(h.cores)},
          {"memory_bytes", or_null(h.memory_bytes)},
          {"cgroup_limit_bytes", or_null(h.cgroup_limit_bytes)},
          {"facts", h.facts.known},
          {"facts_missing", h.facts.missing}};
}

host_facts host_from(fields f) {
  host_facts h;
  h.os = f.text_or_null("os");
  h.kernel = f.text_or_null("kernel");
  h.cpu = f.text_or_null("cpu");
  h.cores = f.count_or_null("cores");
  h.memory_bytes = f.count_or_null("memory_bytes");
  h.cgroup_limit_bytes = f.count_or_null("cgroup_limit_bytes");
  h.facts = facts_from(f);
  f.finish();
  return h;
}

}  // namespace

std::string to_json(const gpu_facts& gpu) {
  return dump_line({{"gpu", json_of(gpu)}, {"free_bytes", or_null(gpu.free_bytes)}});
}

gpu_facts gpu_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  fields f(document, {source, ""});
  gpu_facts gpu = gpu_from(f.object("gpu"));
  gpu.free_bytes = f.count_or_null("free_bytes");
  f.finish();
  return gpu;
}

std::string to_json(const environment& e) {
  return dump_line({{"kind", "environment"},
                    {"schema", 1},
                    {"umbench", e.umbench},
                    {"compiler", e.compiler},
                    {"cuda_backend", e.has_cuda_backend},
                    {"created", e.created},
                    {"host", json_of(e.host)},
                    {"gpu", e.gpu ? json_of(*e.gpu) : json(nullptr)},
                    {"nvidia_uvm", or_null(e.nvidia_uvm)}});
}

environment environment_from_json(std::string_view line, const std::string& source) {
  const json document = parse_json(line, source);
  fields f(document, {source, ""});
  as_one_of(f.at("kind"), f.where("kind"), {"environment"});
  f.schema();
  environment e;
  e.umbench = f.text("umbench");
  e.compiler = f.text("compiler");
  e.has_cuda_backend = f.boolean("cuda_backend");
  e.created = f.text("created");
  if (!is_time(e.created)) refuse(f.where("created"), "is no time such as 2026-01-31T12:00:00Z");
  e.host = host_from(f.object("host"));
  if (!f.is_null("gpu")) e.gpu = gpu_from(f.object("gpu"));
  if (!f.is_null("nvidia_uvm")) e.nvidia_uvm = parameters_from(f.at("nvidia_uvm"), f.where("nvidia_uvm"));
  f.finish();
  return e;
}

}  // namespace um
