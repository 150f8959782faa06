// Whole files in and out. A read is complete or refused; nothing that is written replaces an input, records,
// or half of what was there. Every function throws input_error with a line that names the file.
#pragma once

#include <cerrno>
#include <filesystem>
#include <span>
#include <string>

namespace um {

// The contents of a regular file or a pipe. Throws for folders, devices, errors or an early end while
// reading, and contents that do not fit into memory.
std::string read_file(const std::filesystem::path& path);
// The same of an open descriptor, of a file from that byte on; `path` is for the messages.
std::string read_descriptor(int descriptor, const std::filesystem::path& path, std::size_t from_byte = 0);

// For names given with `option`: refuses one that is an input by whatever path, and a file of records. "" and
// "-" are no files.
void check_output(const char* option, const std::string& path, std::span<const std::string> inputs = {});

// Writes beside the file, then puts it in its place; whatever fails, the file stays as it was. Devices and
// pipes are written directly, and "-" is standard output.
void write_file(const std::string& path, const std::string& text);

// Whether both are there and are one file, by whatever path.
bool same_file(const std::string& a, const std::string& b);

// Repeats a system call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace um
