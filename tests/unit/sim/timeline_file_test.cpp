#include "sim/timeline_file.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "sim/errors.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

/// Removed at the end of the test.
struct TemporaryFile {
  explicit TemporaryFile(const char* name)
      : path(std::filesystem::temp_directory_path() / (std::string("flopcast_") + name)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("a timeline on disk holds what a buffer holds") {
  SmallWorkload small;
  const KernelId kernel = small.kernel(microseconds(3));
  const TransferId transfer =
      small.transfer({.size = megabytes(1), .solo_rate = gigabytes_per_second(80)});
  const LinkId link = small.link(gigabytes_per_second(100));
  const GroupId both = small.group({RankId{0}, RankId{1}}, {{link, 1}});
  for (int r = 0; r < 2; ++r) {
    ProgramBuilder program(1);
    for (int i = 0; i < 20000; ++i) {  // more than one buffer
      program.allocate(kMain, CategoryId{1}, 10);
      program.compute(kMain, kernel, kCompute, LabelId{0});
      program.collective(kMain, 0, transfer, kCommunication, LabelId{0});
      program.release(kMain, CategoryId{1}, 10);
    }
    small.rank(std::move(program), {both}, r == 0 ? 1 : 0.9);
  }
  TimelineBuffer expected;
  run(small.workload, &expected);

  const TemporaryFile file("timeline_file_test");
  TimelineFile sink(file.path);
  run(small.workload, &sink);
  sink.close();
  TimelineBuffer read;
  replay_timeline(file.path, read);
  REQUIRE(read.spans.size() == expected.spans.size());
  REQUIRE(read.memory.size() == expected.memory.size());
  REQUIRE(read.links.size() == expected.links.size());
  for (std::size_t i = 0; i < read.spans.size(); ++i) {
    REQUIRE(read.spans[i].rank == expected.spans[i].rank);
    REQUIRE(read.spans[i].kind == expected.spans[i].kind);
    REQUIRE(read.spans[i].begin == expected.spans[i].begin);
    REQUIRE(read.spans[i].start == expected.spans[i].start);
    REQUIRE(read.spans[i].end == expected.spans[i].end);
  }
  for (std::size_t i = 0; i < read.links.size(); ++i) {
    REQUIRE(read.links[i].at == expected.links[i].at);
    REQUIRE(read.links[i].rate == expected.links[i].rate);
  }
}

TEST_CASE("a timeline file that cannot be used says why") {
  CHECK_THROWS_AS(TimelineFile("/nowhere/timeline"), IoError);
  TimelineBuffer buffer;
  CHECK_THROWS_AS(replay_timeline("/nowhere/timeline", buffer), IoError);
  const TemporaryFile file("timeline_file_wrong");
  std::ofstream(file.path) << "text";
  CHECK_THROWS_AS(replay_timeline(file.path, buffer), IoError);
  std::ofstream(file.path) << "s";  // ends within a record
  CHECK_THROWS_AS(replay_timeline(file.path, buffer), IoError);
}
