// Reading and writing whole files. Reading returns all contents or throws. Writing never replaces an input or
// a file of records, and never leaves a partial file. Every function throws input_error with a line that
// names the file.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace um {

// The contents of a regular file or a pipe. Throws for folders, devices, errors or an early end while
// reading, and contents that do not fit into memory.
std::string read_file(const std::filesystem::path& path);
// The same for an open descriptor; `path` is for messages.
std::string read_descriptor(int descriptor, const std::filesystem::path& path);
// False, with errno set, if not all of it can be written.
bool write_all(int descriptor, std::string_view text);

// Checks an output file named with `option`: refuses one that is an input, by whatever path, and a file of
// records. "" and "-" do not name files.
void check_output_file(const char* option, const std::string& path, std::span<const std::string> inputs = {});

// Writes a temporary file and renames it, so that on failure the old file stays unchanged. Devices and pipes
// are written directly; "-" is standard output.
void write_file(const std::string& path, const std::string& text);

// The text with which every file of records begins.
inline constexpr std::string_view opening_of_records = R"({"kind":"environment")";

// Repeats a system call that a signal interrupted.
auto retry_if_interrupted(auto call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Owns a file descriptor and closes it on destruction.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  // Closes the descriptor. Returns false, with errno set, if written data is lost.
  bool reset() { return !open() || close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }

 private:
  int fd_ = -1;
};

}  // namespace um
