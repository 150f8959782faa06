#include "backends/cuda/engine_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace um {
namespace {

constexpr int schema = 1;
constexpr const char* cap_text = " workspace ";

std::map<std::string, engine_choice> read_engines(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  std::map<std::string, engine_choice> engines;
  if (!json.is_object() || !json.contains("schema") || json["schema"] != schema) return engines;
  const auto found = json.find("engines");
  if (found == json.end() || !found->is_object()) return engines;
  for (const auto& [key, value] : found->items()) {
    try {
      engines[key] = {value.at("engine").get<std::string>(), value.at("position").get<std::int64_t>(),
                      value.at("workspace_bytes").get<byte_count>(), value.at("time_ns").get<nanoseconds>(),
                      value.value("parts", std::int64_t{1})};
    } catch (const nlohmann::json::exception&) {
      continue;  // an entry that cannot be read is chosen anew
    }
  }
  return engines;
}

[[noreturn]] void fail(const std::filesystem::path& file, const char* action) {
  throw std::system_error(errno, std::generic_category(),
                          std::string(action) + " engine cache " + file.string() +
                              " (XDG_CACHE_HOME can name a folder that may be written)");
}

void write_engines(const std::filesystem::path& file, const std::map<std::string, engine_choice>& engines) {
  nlohmann::json json = {{"schema", schema}, {"engines", nlohmann::json::object()}};
  for (const auto& [key, e] : engines) {
    json["engines"][key] = {{"engine", e.engine},
                            {"position", e.position},
                            {"workspace_bytes", e.workspace_bytes},
                            {"time_ns", e.time},
                            {"parts", e.parts}};
  }
  const std::filesystem::path temporary = file.string() + '.' + std::to_string(getpid());
  {
    std::ofstream out(temporary);
    out << json.dump(1) << '\n';
    out.flush();
    if (!out) fail(temporary, "cannot write");
  }
  std::filesystem::rename(temporary, file);
}

// A process holds it while it reads, merges and writes.
class file_lock {
 public:
  explicit file_lock(const std::filesystem::path& file)
      : descriptor_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(file, "cannot open lock of");
    if (flock(descriptor_, LOCK_EX) != 0) {
      close(descriptor_);
      fail(file, "cannot lock");
    }
  }
  ~file_lock() { close(descriptor_); }
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::filesystem::path standard_engine_cache() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  }
  return folder / "umbench" / "engines.json";
}

engine_cache::engine_cache(std::filesystem::path file)
    : file_(std::move(file)), engines_(read_engines(file_)) {}

std::optional<engine_choice> engine_cache::find(const std::string& key) const {
  const auto found = engines_.find(key);
  if (found == engines_.end()) return {};
  return found->second;
}

std::vector<engine_choice> engine_cache::find_within(const std::string& problem, byte_count workspace_cap,
                                                     const std::string& version) const {
  std::vector<engine_choice> all;
  const std::string front = problem + cap_text;
  for (auto at = engines_.lower_bound(front); at != engines_.end() && at->first.starts_with(front); ++at) {
    const char* const digits = at->first.c_str() + front.size();
    char* end = nullptr;
    const byte_count made_within = std::strtoull(digits, &end, 10);
    if (end == digits || version != end || made_within < workspace_cap) continue;
    if (at->second.workspace_bytes <= workspace_cap) all.push_back(at->second);
  }
  return all;
}

std::string engine_key(const std::string& problem, byte_count workspace_cap, const std::string& version) {
  return problem + cap_text + std::to_string(workspace_cap) + version;
}

engine_choice engine_cache::store(const std::string& key, const engine_choice& choice,
                                  const std::optional<engine_choice>& stale) {
  std::error_code ignored;  // the lock tells if the folder is missing
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const file_lock lock(file_.string() + ".lock");
  engines_ = read_engines(file_);
  const auto [at, inserted] = engines_.try_emplace(key, choice);
  if (!inserted && stale && at->second == *stale) at->second = choice;
  write_engines(file_, engines_);
  return at->second;
}

}  // namespace um
