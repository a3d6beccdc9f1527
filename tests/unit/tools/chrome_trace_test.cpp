#include "tools/chrome_trace.h"

#include <zlib.h>

#include <unistd.h>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/errors.h"

using namespace flopcast;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// A file of its own in the temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("flopcast-" + std::to_string(getpid()) + "-" + name)) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string unzipped(const std::filesystem::path& file) {
  gzFile in = gzopen(file.c_str(), "rb");
  REQUIRE(in != nullptr);
  CHECK(gzdirect(in) == 0);  // really compressed
  std::string text(1 << 16, '\0');
  text.resize(
      static_cast<std::size_t>(gzread(in, text.data(), static_cast<unsigned>(text.size()))));
  gzclose(in);
  return text;
}

SimTime nanosecond(std::int64_t n) { return {n * 1000}; }

Workload sample_workload() {
  Workload workload;
  workload.ranks = {Rank{.name = "stage 0", .count = 8}, Rank{.name = "stage \"1\""}};
  workload.links = {Link{.name = "node 0 nic 0"}};
  workload.stream_names = {"compute", "tp"};
  workload.category_names = {"forward", "tensor parallel"};
  workload.labels = {"attention", "all-reduce"};
  return workload;
}

Span span(std::uint32_t rank, std::uint16_t stream, SimTime begin, SimTime start, SimTime end) {
  return {.rank = RankId{rank},
          .stream = stream,
          .kind = stream == 0 ? OpKind::compute : OpKind::collective,
          .category = CategoryId{stream},
          .label = LabelId{stream},
          .begin = begin,
          .start = start,
          .end = end};
}

TimelineBuffer sample_timeline() {
  TimelineBuffer timeline;
  timeline.spans = {span(0, 0, nanosecond(0), nanosecond(0), nanosecond(1001)),
                    // picoseconds that rounding to the nearest would make overlap
                    span(0, 0, nanosecond(1001), nanosecond(1001), SimTime{2'000'700}),
                    span(0, 0, SimTime{2'000'700}, SimTime{2'000'700}, SimTime{3'000'400}),
                    span(0, 1, nanosecond(1001), nanosecond(1500), nanosecond(2500)),
                    span(1, 1, nanosecond(1500), nanosecond(1500), nanosecond(2500)),
                    span(1, 0, nanosecond(2500), nanosecond(2500), nanosecond(2500))};
  timeline.memory = {{RankId{0}, nanosecond(0), 1'000'000'000},
                     {RankId{0}, nanosecond(1500), 2'500'000'000}};
  timeline.links = {{LinkId{0}, nanosecond(1500), 25e9}, {LinkId{0}, nanosecond(2500), 0}};
  return timeline;
}

void write_chrome_trace(const std::filesystem::path& file, const Workload& workload,
                        const TimelineBuffer& timeline) {
  ChromeTrace trace(file, workload);
  for (const Span& span : timeline.spans) trace.add(span);
  for (const MemorySample& sample : timeline.memory) trace.add(sample);
  for (const LinkSample& sample : timeline.links) trace.add(sample);
  trace.close();
}

json written() {
  const TemporaryFile file("trace.json");
  write_chrome_trace(file.path(), sample_workload(), sample_timeline());
  return json::parse(contents(file.path())).at("traceEvents");
}

std::vector<json> of_phase(const json& events, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

/// As Perfetto reads a time: microseconds to whole nanoseconds, cut.
std::int64_t perfetto_ns(const json& microseconds) {
  return static_cast<std::int64_t>(microseconds.get<double>() * 1000.0);
}

}  // namespace

TEST_CASE("ranks are processes and streams are threads, named and in order") {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const json& event : of_phase(written(), "M")) {
    if (event.at("name") == "process_name") processes[event.at("pid")] = event["args"]["name"];
    if (event.at("name") == "thread_name") {
      threads[{event.at("pid"), event.at("tid")}] = event["args"]["name"];
    }
    if (event.at("name") == "process_sort_index") {
      CHECK(event["args"]["sort_index"] == event["pid"]);
    }
  }
  CHECK(processes ==
        std::map<int, std::string>{{1, "stage 0 (8 alike)"}, {2, "stage \"1\""}, {3, "links"}});
  CHECK(threads.at({1, 1}) == "compute");
  CHECK(threads.at({2, 2}) == "tp");
}

TEST_CASE("waiting and transfer are two slices, empty spans none") {
  const auto slices = of_phase(written(), "X");
  REQUIRE(slices.size() == 6);
  std::vector<json> rank0_tp;
  for (const json& slice : slices) {
    if (slice["pid"] == 1 && slice["tid"] == 2) rank0_tp.push_back(slice);
  }
  REQUIRE(rank0_tp.size() == 2);
  CHECK(rank0_tp[0]["name"] == "wait: all-reduce");
  CHECK(rank0_tp[0]["ts"].get<double>() == Approx(1.001).margin(2e-4));
  CHECK(rank0_tp[0]["dur"] == 0.499);
  CHECK(rank0_tp[1]["name"] == "all-reduce");
  CHECK(rank0_tp[1]["dur"] == 1.0);
  CHECK(rank0_tp[1]["cat"] == "tensor parallel");
}

TEST_CASE("slices of a thread do not overlap, in doubles and as Perfetto cuts them") {
  std::map<std::pair<int, int>, std::vector<json>> threads;
  for (const json& slice : of_phase(written(), "X")) {
    threads[{slice["pid"], slice["tid"]}].push_back(slice);
  }
  for (auto& [thread, slices] : threads) {
    std::ranges::sort(slices, {}, [](const json& slice) { return slice["ts"].get<double>(); });
    for (std::size_t i = 1; i < slices.size(); ++i) {
      const json& before = slices[i - 1];
      CAPTURE(before.dump(), slices[i].dump());
      const double end = before["ts"].get<double>() + before["dur"].get<double>();
      CHECK(end <= slices[i]["ts"].get<double>() + 1e-9);
      CHECK(perfetto_ns(before["ts"]) + perfetto_ns(before["dur"]) <= perfetto_ns(slices[i]["ts"]));
    }
  }
}

TEST_CASE("every whole nanosecond is read back as itself") {
  Workload workload = sample_workload();
  TimelineBuffer timeline;
  for (std::int64_t n = 0; n < 3000; ++n) {
    timeline.spans.push_back(
        span(0, 0, nanosecond(n * 997), nanosecond(n * 997), nanosecond((n + 1) * 997)));
  }
  const TemporaryFile file("exact.json");
  write_chrome_trace(file.path(), workload, timeline);
  std::int64_t n = 0;
  for (const json& slice : of_phase(json::parse(contents(file.path())).at("traceEvents"), "X")) {
    if (perfetto_ns(slice["ts"]) != n * 997) FAIL("slice " << n << " is at " << slice["ts"]);
    ++n;
  }
  CHECK(n == 3000);
}

TEST_CASE("counters rise in time and carry their units") {
  std::map<std::string, std::vector<json>> counters;
  for (const json& event : of_phase(written(), "C")) counters[event["name"]].push_back(event);
  REQUIRE(counters.size() == 2);
  for (const auto& [name, samples] : counters) {
    REQUIRE(samples.size() == 2);
    CHECK(samples[0]["ts"].get<double>() < samples[1]["ts"].get<double>());
  }
  CHECK(counters["memory"][1]["args"]["GB"] == 2.5);
  CHECK(counters["memory"][1]["pid"] == 1);
  CHECK(counters["node 0 nic 0"][0]["args"]["GB/s"] == 25.0);
  CHECK(counters["node 0 nic 0"][0]["pid"] == 3);
}

TEST_CASE("a name that ends in .gz is compressed and holds the same") {
  const TemporaryFile plain("same.json");
  const TemporaryFile packed("same.json.gz");
  write_chrome_trace(plain.path(), sample_workload(), sample_timeline());
  write_chrome_trace(packed.path(), sample_workload(), sample_timeline());
  CHECK(unzipped(packed.path()) == contents(plain.path()));
}

TEST_CASE("an empty timeline is a trace too") {
  const TemporaryFile file("empty.json");
  write_chrome_trace(file.path(), {}, {});
  CHECK(json::parse(contents(file.path())).at("traceEvents").empty());
}

TEST_CASE("a file that cannot be written is an IoError with its name and the reason") {
  CHECK_THROWS_AS(write_chrome_trace("/no/such/folder/t.json", {}, {}), IoError);
  CHECK_THROWS_WITH(write_chrome_trace("/no/such/folder/t.json", {}, {}),
                    Contains("/no/such/folder/t.json") && Contains("No such file or directory"));
  if (std::filesystem::exists("/dev/full")) {
    CHECK_THROWS_WITH(write_chrome_trace("/dev/full", sample_workload(), sample_timeline()),
                      Contains("/dev/full") && Contains("No space left"));
  }
}
