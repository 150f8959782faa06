#include "backends/cuda/engine_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace um {
namespace {

constexpr const char* cap_text = " workspace ";

[[noreturn]] void fail(const std::filesystem::path& file, const char* action) {
  throw std::system_error(errno, std::generic_category(),
                          std::string("cannot ") + action + " engine cache " + file.string() +
                              " (XDG_CACHE_HOME can name a folder that may be written)");
}

// The form of every line: JSON whose fields have this order. Texts have no quotes and no backslashes.
std::string line_of(const std::string& key, const engine_choice& e) {
  return "{\"engine\":\"" + e.engine + "\",\"key\":\"" + key + "\",\"parts\":" + std::to_string(e.parts) +
         ",\"position\":" + std::to_string(e.position) + ",\"time_ns\":" + std::to_string(e.time) +
         ",\"workspace_bytes\":" + std::to_string(e.workspace_bytes) + "}\n";
}

// Removes `name` and the value after it from the front of `rest`. Returns false if they are not there.
template <class Value>
bool take_field(std::string_view& rest, std::string_view name, Value& value) {
  if (!rest.starts_with(name)) return false;
  rest.remove_prefix(name.size());
  if constexpr (std::is_same_v<Value, std::string>) {
    value = rest.substr(0, rest.find('"'));
    rest.remove_prefix(value.size());
    return true;
  } else {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return error == std::errc{};
  }
}

// Skips an unreadable line, so that its engine is chosen again.
void read_line(std::string_view line, std::map<std::string, engine_choice>& engines) {
  std::string key;
  engine_choice e;
  const bool is_whole =
      take_field(line, "{\"engine\":\"", e.engine) && take_field(line, "\",\"key\":\"", key) &&
      take_field(line, "\",\"parts\":", e.parts) && take_field(line, ",\"position\":", e.position) &&
      take_field(line, ",\"time_ns\":", e.time) &&
      take_field(line, ",\"workspace_bytes\":", e.workspace_bytes) && line == "}";
  if (is_whole) engines[key] = e;
}

// Holds an exclusive lock on the file, so that no other process appends.
class locked_file {
 public:
  explicit locked_file(const std::filesystem::path& file)
      : file_(file), descriptor_(open(file.c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(file, "open");
    if (flock(descriptor_, LOCK_EX) != 0) {
      close(descriptor_);
      fail(file, "lock");
    }
  }
  ~locked_file() { close(descriptor_); }
  locked_file(const locked_file&) = delete;
  locked_file& operator=(const locked_file&) = delete;

  void append(const std::string& text) const {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written == static_cast<ssize_t>(text.size())) return;
    if (written >= 0) errno = ENOSPC;
    fail(file_, "write");
  }

 private:
  const std::filesystem::path& file_;
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
  return folder / "umbench" / "engines.jsonl";
}

engine_cache::engine_cache(std::filesystem::path file) : file_(std::move(file)) {
  read_new_lines();
}

// Does not read a last line without an end, whose writer was killed. The next append ends it.
void engine_cache::read_new_lines() {
  std::ifstream in(file_, std::ios::binary);
  if (!in.seekg(0, std::ios::end)) return;
  const bool is_shorter = in.tellg() < bytes_read_;
  in.seekg(std::max<std::streamoff>(bytes_read_ - 1, 0));
  // The file was removed and created again, so it is read from its start.
  if (is_shorter || (bytes_read_ > 0 && in.get() != '\n')) in.seekg(bytes_read_ = 0);
  std::string line;
  while (std::getline(in, line) && !in.eof()) {
    read_line(line, engines_);
    bytes_read_ += static_cast<std::streamoff>(line.size()) + 1;
  }
}

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
  std::error_code ignored;  // opening the file fails if the folder is missing
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const locked_file locked(file_);
  read_new_lines();
  const auto [at, inserted] = engines_.try_emplace(key, choice);
  const bool replaces = !inserted && stale && at->second == *stale;
  if (replaces) at->second = choice;
  const bool is_torn = std::filesystem::file_size(file_) > static_cast<std::uintmax_t>(bytes_read_);
  if (inserted || replaces) locked.append((is_torn ? "\n" : "") + line_of(key, at->second));
  return at->second;
}

}  // namespace um
