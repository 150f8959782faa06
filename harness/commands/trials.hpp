// Runs many strategies in one setting, each as a cell of its own, and keeps their records.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/json/record_file.hpp"
#include "harness/process/child.hpp"
#include "harness/study/cell.hpp"
#include "harness/study/environment.hpp"

namespace um {

// The key without the strategy: "vgg16/b256/train/fused/fp32/x2.00/simulated/sim:h200".
std::string setting_text(const cell& setting);

class trials {
 public:
  // Cells that the file already contains are not run again.
  trials(record_file& file, environment here, signal_watch& signals, std::size_t jobs);

  // The records of these strategies, in order; nothing if a stop signal came. GPU cells run one at a time.
  // `why`: heads the progress on standard error. Throws append_error.
  std::optional<std::vector<record>> run(const std::vector<cell>& requested, const std::string& why);

  // 0, or 1 once it has said on standard error how many of the records so far are no results, such as
  // crashes.
  int exit_code() const;

 private:
  record_file& file_;
  environment here_;
  signal_watch& signals_;
  std::size_t jobs_;
  std::map<std::string, record> earlier_records_;
};

}  // namespace um
