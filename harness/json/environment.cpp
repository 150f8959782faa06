#include <algorithm>
#include <cctype>

#include "harness/json/document.hpp"

namespace um {
namespace {

bool is_time_text(std::string_view text) {
  constexpr std::string_view shape = "0000-00-00T00:00:00Z";
  return std::ranges::equal(text, shape, [](unsigned char c, char wanted) {
    return wanted == '0' ? std::isdigit(c) != 0 : c == static_cast<unsigned char>(wanted);
  });
}

constexpr checked_text_format time_text{"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
                                        is_time_text, "is no time such as 2026-01-31T12:00:00Z"};

}  // namespace

void describe(auto& v, gpu_facts& g) {
  v.field("device", g.device, plain_format{0, 1023});
  v.field("name", g.name);
  v.field("driver", g.driver);
  v.field("memory_bytes", g.memory_bytes);
  v.field("compute_capability", g.compute_capability);
  v.field("concurrent_managed_access", g.concurrent_managed_access);
  v.field("pageable_memory_access", g.pageable_memory_access);
  v.field("cuda_driver", g.cuda_driver);
  v.field("cuda_runtime", g.cuda_runtime);
  v.field("cudnn", g.cudnn);
  v.field("facts", g.facts.known);
  v.field("facts_missing", g.facts.missing);
}

void describe(auto& v, host_facts& h) {
  v.field("os", h.os);
  v.field("kernel", h.kernel);
  v.field("cpu", h.cpu);
  v.field("cores", h.cores);
  v.field("memory_bytes", h.memory_bytes);
  v.field("cgroup_limit_bytes", h.cgroup_limit_bytes);
  v.field("facts", h.facts.known);
  v.field("facts_missing", h.facts.missing);
}

void describe(auto& v, environment& e) {
  v.constant("kind", "environment");
  v.constant("schema", 1);
  v.field("umbench", e.umbench);
  v.field("compiler", e.compiler);
  v.field("cuda_backend", e.has_cuda_backend);
  v.field("created", e.created, time_text);
  v.field("host", e.host);
  v.field("gpu", e.gpu);
  v.field("nvidia_uvm", e.nvidia_uvm);
}

namespace {

// The document with a GPU's facts, which a child process sends.
struct gpu_answer {
  gpu_facts gpu;
  std::optional<byte_count> free_bytes;
};

}  // namespace

void describe(auto& v, gpu_answer& a) {
  v.field("gpu", a.gpu);
  v.field("free_bytes", a.free_bytes);
}

std::string to_json(const gpu_facts& gpu) {
  gpu_answer answer{gpu, gpu.free_bytes};
  return dump_line(write_object(answer));
}

gpu_facts gpu_from_json(std::string_view text, const std::string& source) {
  gpu_answer answer;
  read_object(answer, parse_json(text, source), {source, ""});
  answer.gpu.free_bytes = answer.free_bytes;
  return answer.gpu;
}

std::string to_json(const environment& e) {
  environment copy = e;
  return dump_line(write_object(copy));
}

environment environment_from_json(std::string_view line, const std::string& source) {
  environment e;
  read_object(e, parse_json(line, source), {source, ""});
  return e;
}

json environment_schema() {
  return schema_of_object<environment>();
}

}  // namespace um
