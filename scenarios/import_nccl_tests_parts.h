#pragma once

// Between the readers of the three formats and the importer that completes their tables. Internal.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/collective_table.h"

namespace flopcast {

/// A table as read, before what is missing is inferred.
struct RawCollectiveTable {
  std::optional<CollectiveKind> kind;
  std::optional<int> ranks;
  std::optional<int> nodes;
  std::string element_type;
  bool reduces = false;  // a reduction is named
  std::vector<CollectiveRow> rows;
  std::vector<std::string> notes;
};

std::vector<RawCollectiveTable> read_nccl_tests_text(std::string_view text,
                                                     const std::string& name);
std::vector<RawCollectiveTable> read_nccl_tests_csv(std::string_view text, const std::string& name);
std::vector<RawCollectiveTable> read_nccl_tests_json(std::string_view text,
                                                     const std::string& name);

/// "all_reduce_perf", "AllReduce", "alltoall", "sendrecv": the names that the programs use, any
/// case, with underscores or not. Nothing for one that is not modelled.
std::optional<CollectiveKind> nccl_tests_kind(std::string_view name);

/// Throws InputError "file:line: problem".
[[noreturn]] void fail_at_line(const std::string& name, int line, const std::string& problem);

std::optional<double> parse_number(std::string_view text);
std::optional<std::int64_t> parse_integer(std::string_view text);
std::vector<std::string_view> split_words(std::string_view text);

/// Lines of a text with their numbers, without line ends and colour codes.
struct TextLine {
  int number = 0;
  std::string text;
};
std::vector<TextLine> text_lines(std::string_view text);

/// A line without a launcher's tag in front ("[1,0]<stdout>:", "12: "), without NCCL's debug
/// output, which may be glued to the end of a half-printed row, and without leading blanks.
std::string_view without_other_output(std::string_view line);

}  // namespace flopcast
