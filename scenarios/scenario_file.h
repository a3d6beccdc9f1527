#pragma once

// A file of scenarios: one, or a table of many runs of one source. A table has "rows", and instead
// of being a scenario it has one as its "base":
//
//   {
//     "base": {"cluster": {"system": "dgx-a100"}, ...},
//     "texts": {"a1": "Recompute: full, as in the published scripts."},
//     "columns": ["name", "mark", "parallel.tp", "assumptions", "expect.step_time.value"],
//     "rows": [["gpt-22b", "test", 8, ["@a1"], "1.42 s"], ...]
//   }
//
// A row sets the keys that the columns name, as --set does; null takes one away. A cell, or an
// element of one, that begins with "@" stands for the text of that name.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/document.h"

namespace flopcast {

class ScenarioFile {
 public:
  /// Throws InputError where it is no JSON, and where a table has rows that do not fill its
  /// columns, a name twice or a text that it lacks.
  static ScenarioFile read(const std::filesystem::path& file);
  static ScenarioFile of(Document document);

  /// Of the scenarios, in the order of the rows.
  const std::vector<std::string>& names() const { return names_; }
  /// The n-th, as if it were a file of its own; messages tell the place of its cells. Must not
  /// outlive this.
  Document scenario(std::size_t n) const;

 private:
  explicit ScenarioFile(Document document) : document_(std::move(document)) {}
  void read_table();

  Document document_;
  bool table_ = false;
  std::vector<std::string> columns_;
  std::vector<std::string> names_;
};

}  // namespace flopcast
