#include "scenarios/import_nccl_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "scenarios/import_nccl_tests_parts.h"
#include "scenarios/text_file.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

// The printed bandwidths have two digits behind the point: a ratio of rows below this says little.
constexpr BytesPerSecond kTellingBandwidth = gigabytes_per_second(5);

// busbw / algbw of the fastest row, the factor by which nccl-tests multiplies.
std::optional<double> printed_factor(const std::vector<CollectiveRow>& rows) {
  std::optional<CollectiveTiming> best;
  for (const CollectiveRow& row : rows) {
    const auto& timing = row.out_of_place ? row.out_of_place : row.in_place;
    if (timing && (!best || timing->algorithm_bandwidth > best->algorithm_bandwidth)) {
      best = timing;
    }
  }
  if (!best || best->algorithm_bandwidth < kTellingBandwidth) {
    return std::nullopt;
  }
  return best->bus_bandwidth / best->algorithm_bandwidth;
}

std::optional<CollectiveKind> kind_of_factor(double factor, bool reduces) {
  if (factor > 1.005) {
    return CollectiveKind::all_reduce;
  }
  if (factor < 0.995 && reduces) {
    return CollectiveKind::reduce_scatter;
  }
  return std::nullopt;
}

// The whole number of ranks whose factor is nearest; nothing where several are as near.
std::optional<int> ranks_of_factor(CollectiveKind kind, double factor) {
  const double part = kind == CollectiveKind::all_reduce ? factor / 2 : factor;
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::send_recv || part >= 1) {
    return std::nullopt;
  }
  const double ranks = 1 / (1 - part);
  const double rounded = std::round(ranks);
  constexpr double kMostRanks = 64;  // beyond, two digits cannot tell neighbours apart
  if (rounded < 2 || rounded > kMostRanks || std::abs(ranks - rounded) > 0.2) {
    return std::nullopt;
  }
  return static_cast<int>(rounded);
}

int first_line(const RawCollectiveTable& raw) {
  return raw.rows.empty() ? 1 : raw.rows.front().line;
}

CollectiveKind settle_kind(RawCollectiveTable& raw, const std::string& name,
                           const NcclTestsHints& hints, std::optional<double> factor) {
  if (hints.kind) {
    return *hints.kind;
  }
  if (raw.kind) {
    return *raw.kind;
  }
  const auto guessed = factor ? kind_of_factor(*factor, raw.reduces) : std::nullopt;
  if (guessed) {
    raw.notes.push_back(fmt::format("{}: collective {} inferred from busbw / algbw = {:.3f}",
                                    first_line(raw), to_text(*guessed), *factor));
    return *guessed;
  }
  fail_at_line(name, first_line(raw),
               "the collective is not named in the file and cannot be told from the bandwidths; "
               "give it as an option");
}

int settle_ranks(RawCollectiveTable& raw, const std::string& name, const NcclTestsHints& hints,
                 CollectiveKind kind, std::optional<double> factor) {
  const std::optional<int> told = hints.ranks ? hints.ranks : raw.ranks;
  if (told && *told > 0) {
    const double expected = bus_factor(kind, *told);
    if (factor && std::abs(*factor - expected) > 0.03 * expected) {
      raw.notes.push_back(fmt::format("{}: busbw / algbw is {:.3f}, not the {:.3f} of {} ranks",
                                      first_line(raw), *factor, expected, *told));
    }
    return *told;
  }
  const auto guessed = factor ? ranks_of_factor(kind, *factor) : std::nullopt;
  if (guessed) {
    raw.notes.push_back(fmt::format("{}: {} ranks inferred from busbw / algbw = {:.3f}",
                                    first_line(raw), *guessed, *factor));
    return *guessed;
  }
  fail_at_line(name, first_line(raw),
               "the number of ranks is not in the file and cannot be told from the bandwidths; "
               "give it as an option");
}

CollectiveTable complete(RawCollectiveTable raw, const std::string& name,
                         const NcclTestsHints& hints) {
  const std::optional<double> factor = printed_factor(raw.rows);
  CollectiveTable table;
  table.kind = settle_kind(raw, name, hints, factor);
  table.ranks = settle_ranks(raw, name, hints, table.kind, factor);
  table.nodes = hints.nodes ? hints.nodes : raw.nodes;
  if (table.nodes && (*table.nodes < 1 || table.ranks % *table.nodes != 0)) {
    raw.notes.push_back(fmt::format("{}: {} ranks do not divide over {} nodes; nodes left out",
                                    first_line(raw), table.ranks, *table.nodes));
    table.nodes.reset();
  }
  table.element_type = std::move(raw.element_type);
  table.rows = std::move(raw.rows);
  table.file = name;
  table.notes = std::move(raw.notes);
  return table;
}

bool starts_with_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return false;
  }
  if (text[first] == '{') {
    return true;
  }
  // "[1,0]<stdout>:" is a launcher's tag, "[{" and "[" with a line end are JSON.
  const auto second = text.find_first_not_of(" \t\r\n", first + 1);
  return text[first] == '[' && second != std::string_view::npos &&
         (text[second] == '{' || text[second] == ']');
}

std::vector<RawCollectiveTable> read_any(std::string_view text, const std::string& name) {
  if (starts_with_json(text)) {
    return read_nccl_tests_json(text, name);
  }
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.find(',') != std::string_view::npos && first.find("size,") != std::string_view::npos) {
    return read_nccl_tests_csv(text, name);
  }
  return read_nccl_tests_text(text, name);
}

std::string lower_letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      out += static_cast<char>(c - 'A' + 'a');
    } else if (c >= 'a' && c <= 'z') {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::optional<CollectiveKind> nccl_tests_kind(std::string_view name) {
  struct Name {
    std::string_view word;
    CollectiveKind kind;
  };
  constexpr Name kNames[] = {
      {"allreduce", CollectiveKind::all_reduce},         {"allgather", CollectiveKind::all_gather},
      {"reducescatter", CollectiveKind::reduce_scatter}, {"alltoall", CollectiveKind::all_to_all},
      {"broadcast", CollectiveKind::broadcast},          {"sendrecv", CollectiveKind::send_recv}};
  std::string word = lower_letters(name.substr(name.rfind('/') + 1));
  if (word.ends_with("perf")) {
    word.resize(word.size() - 4);
  }
  for (const Name& known : kNames) {
    if (word == known.word) {
      return known.kind;
    }
  }
  return std::nullopt;
}

void fail_at_line(const std::string& name, int line, const std::string& problem) {
  throw InputError(fmt::format("{}:{}: {}", name, line, problem));
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\f\v";
  std::vector<std::string_view> words;
  std::size_t begin = text.find_first_not_of(kBlanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::vector<CollectiveTable> parse_nccl_tests(std::string_view text, const std::string& name,
                                              const NcclTestsHints& hints) {
  std::vector<CollectiveTable> tables;
  for (RawCollectiveTable& raw : read_any(text, name)) {
    tables.push_back(complete(std::move(raw), name, hints));
  }
  if (tables.empty()) {
    throw InputError(fmt::format("{}: no table of nccl-tests or rccl-tests found", name));
  }
  return tables;
}

std::vector<CollectiveTable> import_nccl_tests(const std::filesystem::path& file,
                                               const NcclTestsHints& hints) {
  return parse_nccl_tests(read_text_file(file, "a log"), file.string(), hints);
}

}  // namespace flopcast
