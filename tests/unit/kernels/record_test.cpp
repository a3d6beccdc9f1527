#include "kernels/record.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "sim/errors.h"

namespace flopcast {
namespace {

const RecordEnvironment kEnvironment{{"gpu", "NVIDIA \"X\" 80GB"}, {"driver", "13.0"}};
const MeasurementCase kCopy = MemoryCase{MemoryOp::copy, 16, 1024};
const MeasurementCase kTriad = MemoryCase{MemoryOp::triad, 16, 1024};
constexpr const char* kAt = "2026-01-31T12:00:00Z";

Measurement two_samples() {
  return {.samples = {{microseconds(10), GpuState{1980, 2619, 41, 250.5, 0}},
                      {microseconds(12), GpuState{1200, 2619, 90, 400, kHardwareThermal}}},
          .stopped = StopReason::budget,
          .error_over_tolerance = 0.25};
}

// A file of this name in the test's folder, removed before and after.
struct File {
  explicit File(const std::string& name) : path(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove(path);
  }
  ~File() { std::filesystem::remove(path); }
  std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::filesystem::path path;
};

TEST_CASE("a line holds the case, every sample and its unit in each name") {
  CHECK(measurement_line(kCopy, two_samples(), kAt) ==
        "{\"case\":\"op=copy rows=16 columns=1024\",\"op\":\"copy\",\"rows\":16,\"columns\":1024,"
        "\"work_flop\":0,\"moved_bytes\":131072,\"median_us\":10,\"relative_error\":null,"
        "\"stopped\":\"budget\",\"error_over_tolerance\":0.25,\"at\":\"2026-01-31T12:00:00Z\","
        "\"time_us\":[10,12],\"throttled\":[0,1],\"slowdown_bits\":[0,64],"
        "\"sm_clock_mhz\":[1980,1200],\"memory_clock_mhz\":[2619,2619],\"temperature_c\":[41,90],"
        "\"power_w\":[250.5,400]}");
}

TEST_CASE("names are escaped, failures say why") {
  CHECK(environment_line(kEnvironment) ==
        "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA \\\"X\\\" 80GB\",\"driver\":\"13.0\"}");
  CHECK(failure_line(kCopy, {"no \"way\""}, kAt) ==
        "{\"case\":\"op=copy rows=16 columns=1024\",\"op\":\"copy\",\"rows\":16,\"columns\":1024,"
        "\"failure\":\"no \\\"way\\\"\",\"at\":\"2026-01-31T12:00:00Z\"}");
}

TEST_CASE("a record knows what it holds, also when opened again") {
  const File file("flopcast_record_again.jsonl");
  {
    Record record(file.path, kEnvironment);
    CHECK_FALSE(record.has(kCopy));
    record.append(measurement_line(kCopy, two_samples(), kAt));
    record.append(failure_line(kTriad, {"lost"}, kAt));
    CHECK(record.has(kCopy));
  }
  const std::string before = file.text();
  const Record again(file.path, kEnvironment);
  CHECK(again.has(kCopy));
  CHECK_FALSE(again.has(kTriad));  // failed: to be tried again
  CHECK(file.text() == before);
}

TEST_CASE("a line that was cut off is dropped and measured again") {
  const File file("flopcast_record_cut.jsonl");
  const std::string first = environment_line(kEnvironment) + '\n';
  const std::string line = measurement_line(kCopy, two_samples(), kAt);
  file.write(first + line + '\n' + measurement_line(kTriad, two_samples(), kAt).substr(0, 70));
  Record record(file.path, kEnvironment);
  CHECK(record.has(kCopy));
  CHECK_FALSE(record.has(kTriad));
  CHECK(file.text() == first + line + '\n');

  const File started("flopcast_record_started.jsonl");
  started.write(first.substr(0, 10));
  const Record fresh(started.path, kEnvironment);
  CHECK(started.text() == first);
}

TEST_CASE("another machine's record and other files are refused") {
  const File file("flopcast_record_other.jsonl");
  file.write(environment_line({{"gpu", "other"}}) + '\n');
  CHECK_THROWS_WITH(Record(file.path, kEnvironment),
                    Catch::Contains(":1:1: was recorded elsewhere"));
  file.write("my notes");
  CHECK_THROWS_WITH(Record(file.path, kEnvironment), Catch::Contains("is no record of samples"));
  CHECK(file.text() == "my notes");
  CHECK_THROWS_AS(Record("/no/such/folder/record.jsonl", kEnvironment), IoError);
}

}  // namespace
}  // namespace flopcast
