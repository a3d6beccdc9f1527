#pragma once

// Rows of named fields, from CSV with a header or from a record of `flopcast calibrate` (JSON
// lines) or a trace of PyTorch's profiler: what read_kernel_samples works on. Internal to it.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flopcast {

struct SampleField {
  std::string name;
  std::string text;
  std::size_t column = 1;  // of the line, in bytes
};

/// A row's numbers under one name; nothing where a value is unknown.
struct SampleList {
  explicit SampleList(std::string name_of_it) : name(std::move(name_of_it)) {}

  std::string name;
  std::vector<std::optional<double>> values;
};

class SampleRow {
 public:
  SampleRow(const std::string& file, int line, std::vector<SampleField> fields)
      : file_(&file), line_(line), fields_(std::move(fields)) {}

  /// The first of the names that the row has and that is not empty there.
  std::optional<std::string_view> find(std::initializer_list<std::string_view> names) const;
  bool has(std::string_view name) const { return find({name}).has_value(); }
  std::string text(std::initializer_list<std::string_view> names) const;  // "" if absent

  /// Throw InputError "file:line:column: ..." where it is missing, no number or too small.
  double number(std::initializer_list<std::string_view> names) const;       // above 0
  std::int64_t count(std::initializer_list<std::string_view> names) const;  // 1 or more
  std::int64_t count_or(std::initializer_list<std::string_view> names, std::int64_t absent) const;
  [[noreturn]] void fail(std::string_view problem) const;

  /// Gives the row a field that it lacks.
  void assume(const std::string& name, const std::string& text);
  SampleList& add_list(std::string name) { return lists_.emplace_back(std::move(name)); }
  /// Empty where the row has no list of that name.
  std::span<const std::optional<double>> list(std::string_view name) const;

  int line() const { return line_; }
  const std::vector<SampleField>& fields() const { return fields_; }

 private:
  const SampleField* field(std::initializer_list<std::string_view> names) const;
  [[noreturn]] void fail_at(const SampleField& field, std::string_view expected) const;

  const std::string* file_;
  int line_;
  std::vector<SampleField> fields_;
  std::vector<SampleList> lists_;
};

struct SampleTable {
  std::string file;
  std::string gpu;  // of a record or a trace; empty for CSV
  std::vector<SampleRow> rows;
};

/// Whether a file looks like one of them: a record's first line, a trace, or a header with a column
/// of times. Throws InputError where it cannot be read.
bool is_sample_table(const std::filesystem::path& file);

/// Lines that start with # and empty ones are skipped in CSV. The rows refer to the table's name:
/// it must stay where it is.
void read_sample_table(const std::filesystem::path& file, SampleTable& into);

}  // namespace flopcast
