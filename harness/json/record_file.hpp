// A JSON Lines file of records that only grows: one environment line, then a line a record. One
// process at a time holds it (flock). Whatever fails, the lines that were complete stay.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/records/environment.hpp"
#include "harness/records/record.hpp"

namespace um {

// Thrown when a line cannot be added (a full disk); the file is cut back to whole lines.
struct append_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class open_mode : std::uint8_t {
  create,  // refuse a file that holds something
  resume,  // go on with what is there
  read,    // change nothing
};

class record_file {
 public:
  // Throws input_error: it cannot be opened, holds something else, or another process has it.
  // With open_mode::resume a torn last line, left by a crash, is cut off; with read it is left out.
  record_file(std::filesystem::path path, open_mode how);
  ~record_file();
  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // What the file held when it was opened.
  const std::vector<record>& earlier() const { return earlier_; }
  // Those that were appended since as well.
  const std::vector<environment>& environments() const { return environments_; }
  // Index of the environment in which the record earlier()[i] was made.
  std::size_t environment_of(std::size_t i) const { return made_in_.at(i); }
  bool was_torn() const { return was_torn_; }

  // Adds one line and returns once it is on the disk. Throws append_error.
  void append(const environment& e);
  void append(const record& r);

 private:
  void lock();
  void load(open_mode how);
  void load_line(std::string_view line, std::size_t number);
  void append_line(std::string line);

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool was_torn_ = false;
  std::vector<record> earlier_;
  std::vector<environment> environments_;
  std::vector<std::size_t> made_in_;
};

// They differ in nothing but their time.
bool same_environment(const environment& a, const environment& b);

// Appends the environment unless the file's last one differs in nothing but its time.
void note_environment(record_file& file, const environment& here);

}  // namespace um
