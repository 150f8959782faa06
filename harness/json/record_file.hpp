// A JSON Lines file of records that only grows: one environment line, then a line a record. One process at a
// time has it open for appending. Complete lines survive every failure. A last line without a line break is
// used if it is complete JSON; otherwise it is ignored or cut off, with a message.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/io/files.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/record.hpp"

namespace um {

// Thrown when a line cannot be added (a full disk, a file that was removed); the file is cut back to whole
// lines.
struct append_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class open_mode : std::uint8_t {
  create,  // throw for a file that is not empty
  resume,  // continue an existing file; throw while another process has it open
  add,     // continue an existing file; wait while another process has it open
  read,    // read only; the file may be a pipe
};

class record_file {
 public:
  // Throws input_error if the file cannot be opened or read, contains something else, is not a regular file
  // to append to, is open in another process (create, resume), or is standard output or error. An incomplete
  // last line, which a crash leaves, is ignored by open_mode::read and cut off by the others. Throws
  // append_error if a stop signal comes while it waits.
  record_file(std::filesystem::path path, open_mode mode);

  const std::filesystem::path& path() const { return path_; }
  // Records in the file when it was opened.
  const std::vector<record>& earlier() const { return earlier_records_; }
  // Environments in the file, including those appended since.
  const std::vector<environment>& environments() const { return environments_; }
  // Index of the environment of the record earlier()[i].
  std::size_t environment_of(std::size_t i) const { return environment_indices_.at(i); }

  // Appends one line, and returns when it is on disk. Throws append_error.
  void append(const environment& e);
  void append(const record& r);

 private:
  void prepare_to_append(open_mode mode);
  void lock(open_mode mode);
  void load_and_cut_torn_line(const std::string& text, open_mode mode);
  void load_line(std::string_view line, std::size_t number);
  void append_line(std::string line);
  bool file_is_unchanged() const;

  std::filesystem::path path_;
  descriptor file_;
  bool lacks_last_line_break_ = false;  // the last line lacks its line break
  std::vector<record> earlier_records_;
  std::vector<environment> environments_;
  std::vector<std::size_t> environment_indices_;
};

// Whether two environments are equal except for their time.
bool same_environment(const environment& a, const environment& b);

// Appends the environment unless it equals the file's last one except for the time.
void append_environment_if_new(record_file& file, const environment& here);

}  // namespace um
