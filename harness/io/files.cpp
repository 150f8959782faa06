#include "harness/io/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action,
                                   std::string_view why) {
  throw input_error(fmt::format("{}: {}: {}", one_line(path.string()), action, why));
}

// Reads all bytes, from a pipe as they arrive.
std::string read_from_descriptor(int from, const struct stat& status, const std::filesystem::path& path) {
  const auto size = static_cast<std::size_t>(status.st_size);
  std::string text;
  std::size_t end = 0;
  while (true) {
    constexpr std::size_t min_bytes = 1 << 16;
    if (text.size() - end < min_bytes) {
      text.resize(std::max({2 * text.size(), end + min_bytes, size + min_bytes}));
    }
    const ssize_t n = retry_if_interrupted([&] { return read(from, text.data() + end, text.size() - end); });
    if (n < 0) throw_file_error(path, "cannot read", std::strerror(errno));
    if (n == 0) break;
    end += static_cast<std::size_t>(n);
  }
  struct stat now{};
  if (S_ISREG(status.st_mode) && fstat(from, &now) == 0 &&
      end < static_cast<std::size_t>(std::min(now.st_size, status.st_size))) {
    throw_file_error(path, "cannot read", fmt::format("{} of {} bytes came", end, status.st_size));
  }
  text.resize(end);
  return text;
}

// The file that a symbolic link leads to, so that writing keeps the link.
std::string link_target(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

mode_t file_mode_for(const std::string& target) {
  struct stat before{};
  if (stat(target.c_str(), &before) == 0) return before.st_mode & 07777;
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

void write_by_rename(const std::string& path, const std::string& text) {
  const std::string target = link_target(path);
  std::string beside = target + ".XXXXXX";
  descriptor to(mkostemp(beside.data(), O_CLOEXEC));
  if (to.get() < 0) throw_file_error(path, "cannot write", std::strerror(errno));
  if (!write_all(to.get(), text) || fchmod(to.get(), file_mode_for(target)) != 0 ||
      retry_if_interrupted([&] { return fsync(to.get()); }) != 0 || !to.reset() ||
      std::rename(beside.c_str(), target.c_str()) != 0) {
    const int why = errno;
    unlink(beside.c_str());
    throw_file_error(path, "cannot write", std::strerror(why));
  }
}

void write_in_place(const std::string& path, const std::string& text) {
  descriptor to(retry_if_interrupted([&] { return open(path.c_str(), O_WRONLY | O_CLOEXEC); }));
  if (to.get() < 0 || !write_all(to.get(), text) || !to.reset()) {
    throw_file_error(path, "cannot write", std::strerror(errno));
  }
}

bool contains_records(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string begin(opening_of_records.size(), ' ');
  return std::ifstream(path).read(begin.data(), static_cast<std::streamsize>(begin.size())) &&
         begin == opening_of_records;
}

}  // namespace

bool write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = retry_if_interrupted([&] { return write(to, text.data(), text.size()); });
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string read_descriptor(int from, const std::filesystem::path& path) {
  struct stat status{};
  if (fstat(from, &status) != 0) throw_file_error(path, "cannot read", std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw_file_error(path, "cannot read", "is a folder");
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
    throw_file_error(path, "cannot read", "is a device; give a file or a pipe");
  }
  try {
    return read_from_descriptor(from, status, path);
  } catch (const std::bad_alloc&) {
    throw_file_error(path, "cannot read", "memory does not suffice for it");
  } catch (const std::length_error&) {
    throw_file_error(path, "cannot read", "memory does not suffice for it");
  }
}

std::string read_file(const std::filesystem::path& path) {
  const descriptor from(retry_if_interrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (from.get() < 0) throw_file_error(path, "cannot read", std::strerror(errno));
  return read_descriptor(from.get(), path);
}

void check_output_file(const char* option, const std::string& path, std::span<const std::string> inputs) {
  namespace fs = std::filesystem;
  if (path.empty() || path == "-") return;
  std::error_code error;
  const auto real = [&](const std::string& p) { return fs::weakly_canonical(fs::absolute(p, error), error); };
  for (const std::string& input : inputs) {
    if (input.empty() || input == "-") continue;
    if (real(path) == real(input) || fs::equivalent(path, input, error)) {
      throw input_error(
          fmt::format("{} {}: is read or written as well, and one would be lost; choose another name", option,
                      one_line(path)));
    }
  }
  if (contains_records(path)) {
    throw input_error(fmt::format("{} {}: holds records, which would be lost; choose another name", option,
                                  one_line(path)));
  }
}

void write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    write_in_place(path, text);
  } else {
    write_by_rename(path, text);
  }
}

}  // namespace um
