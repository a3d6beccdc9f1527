#include "tools/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/trace_file.h"

namespace flopcast {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
constexpr std::int64_t kNanosecondsPerMicrosecond = 1000;

std::int64_t nanoseconds_of(SimTime time) { return time.picoseconds / kPicosecondsPerNanosecond; }

/// "1234.567": microseconds.
std::string microseconds_text(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / kNanosecondsPerMicrosecond,
                     nanoseconds % kNanosecondsPerMicrosecond);
}

/// A moment in microseconds with a tenth of a nanosecond on top: Perfetto multiplies the double by
/// 1000 and cuts, and 1.001 would become 1000 ns, one before the end of the slice that precedes it,
/// for which overlap it drops the slice.
/// Source: google/perfetto, CoerceToTs in the JSON importer (read 2025).
std::string moment_text(SimTime time) { return microseconds_text(nanoseconds_of(time)) + "1"; }

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> json_texts(const std::vector<std::string>& texts,
                                    std::string_view prefix) {
  std::vector<std::string> all;
  all.reserve(texts.size());
  for (const std::string& text : texts) all.push_back(json_text(std::string(prefix) + text));
  return all;
}

std::string name_at(const std::vector<std::string>& names, std::size_t index) {
  return index < names.size() ? names[index] : json_text(fmt::format("#{}", index));
}

// Perfetto keeps process 0 and thread 0 for the idle task of a kernel.
std::size_t process_of(RankId rank) { return std::size_t{index_of(rank)} + 1; }
std::size_t thread_of(std::size_t stream) { return stream + 1; }

}  // namespace

ChromeTrace::ChromeTrace(const std::filesystem::path& file, const Workload& workload)
    : file_(file),
      workload_(workload),
      labels_(json_texts(workload.labels, "")),
      wait_labels_(json_texts(workload.labels, "wait: ")),
      categories_(json_texts(workload.category_names, "")) {
  file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  write_names();
}

void ChromeTrace::add(const Span& span) {
  const std::size_t label = index_of(span.label);
  write_slice(span, span.begin, span.start, name_at(wait_labels_, label));
  write_slice(span, span.start, span.end, name_at(labels_, label));
}

void ChromeTrace::add(const MemorySample& sample) {
  write_counter(process_of(sample.rank), sample.at, "\"memory\"", "GB",
                to_gigabytes(bytes(static_cast<double>(sample.bytes))));
}

void ChromeTrace::add(const LinkSample& sample) {
  if (!links_named_) write_process(link_process(), "links");
  links_named_ = true;
  const std::size_t row = index_of(sample.link);
  const std::string name = row < workload_.links.size() ? json_text(workload_.links[row].name)
                                                        : json_text(fmt::format("link {}", row));
  write_counter(link_process(), sample.at, name, "GB/s",
                to_gigabytes_per_second(bytes_per_second(sample.rate)));
}

void ChromeTrace::close() {
  file_.write("\n]}\n");
  file_.close();
}

void ChromeTrace::write_event(std::string_view event) {
  if (!first_) file_.write(",\n");
  first_ = false;
  file_.write(event);
}

void ChromeTrace::write_process(std::size_t process, std::string_view name) {
  write_event(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})",
                          process, json_text(name)));
  write_event(
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
                  process, process));
}

void ChromeTrace::write_names() {
  for (std::size_t row = 0; row < workload_.ranks.size(); ++row) {
    const Rank& rank = workload_.ranks[row];
    const std::size_t process = process_of(RankId{static_cast<std::uint32_t>(row)});
    write_process(process,
                  rank.count > 1 ? fmt::format("{} ({} alike)", rank.name, rank.count) : rank.name);
    for (std::size_t stream = 0; stream < workload_.stream_names.size(); ++stream) {
      const std::size_t thread = thread_of(stream);
      write_event(
          fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                      process, thread, json_text(workload_.stream_names[stream])));
      write_event(fmt::format(
          R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          process, thread, thread));
    }
  }
}

void ChromeTrace::write_slice(const Span& span, SimTime from, SimTime to, std::string_view name) {
  const std::int64_t length = nanoseconds_of(to) - nanoseconds_of(from);
  if (length <= 0) return;  // nothing to see
  const std::string category = name_at(categories_, static_cast<std::size_t>(span.category));
  write_event(fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{},"args":{{"category":{}}}}})",
      process_of(span.rank), thread_of(span.stream), moment_text(from), microseconds_text(length),
      name, category, category));
}

void ChromeTrace::write_counter(std::size_t process, SimTime at, std::string_view name,
                                std::string_view unit, double value) {
  write_event(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"{}":{}}}}})", process,
                          moment_text(at), name, unit, value));
}

}  // namespace flopcast
