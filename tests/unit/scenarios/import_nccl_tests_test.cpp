#include "scenarios/import_nccl_tests.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "sim/errors.h"

namespace flopcast {
namespace {

const std::string kHeader =
    "#                                       out-of-place                in-place\n"
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    "#   (B) (elements)                 (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n";

CollectiveTable only(const std::vector<CollectiveTable>& tables) {
  REQUIRE(tables.size() == 1);
  return tables.front();
}

CollectiveTable parse_one(const std::string& text, const NcclTestsHints& hints = {}) {
  return only(parse_nccl_tests(text, "log.txt", hints));
}

std::string error_of(const std::string& text, const NcclTestsHints& hints = {}) {
  try {
    parse_nccl_tests(text, "log.txt", hints);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

const NcclTestsHints kEight{.kind = CollectiveKind::all_reduce, .ranks = 8, .nodes = {}};

}  // namespace

TEST_CASE("a table of nccl-tests") {
  const CollectiveTable table = parse_one(
      "# nccl-tests version 2.17.6 nccl-headers=22902 nccl-library=22902\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 67108864 step: 2(factor) warmup iters: 1\n"
      "#\n# Using devices\n"
      "#  Rank  0 Group  0 Pid   3119 on     node1 device  0 [0000:1b:00] NVIDIA H100\n"
      "#  Rank  1 Group  0 Pid   3120 on     node1 device  1 [0000:2b:00] NVIDIA H100\n"
      "#  Rank  2 Group  0 Pid   1119 on     node2 device  0 [0000:1b:00] NVIDIA H100\n"
      "#  Rank  3 Group  0 Pid   1120 on     node2 device  1 [0000:2b:00] NVIDIA H100\n#\n" +
      kHeader +
      "           8           2  float  sum  -1  23.69  0.00  0.00  0  22.16  0.00  0.00  N/A\n"
      "    67108864    16777216  float  sum  -1  674.5  99.49  149.2  0  673.8  99.60  149.4  2\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.6\n#\n");
  CHECK(table.kind == CollectiveKind::all_reduce);
  CHECK(table.ranks == 4);
  CHECK(table.nodes == 2);
  CHECK(table.element_type == "float");
  CHECK(table.notes.empty());
  REQUIRE(table.rows.size() == 2);
  const CollectiveRow& row = table.rows[1];
  CHECK(row.size == mebibytes(64));
  CHECK(row.count == 16777216);
  CHECK(row.line == 15);
  REQUIRE(row.out_of_place);
  REQUIRE(row.in_place);
  CHECK(to_microseconds(row.out_of_place->time) == Approx(674.5));
  CHECK(to_gigabytes_per_second(row.out_of_place->algorithm_bandwidth) == Approx(99.49));
  CHECK(to_gigabytes_per_second(row.in_place->bus_bandwidth) == Approx(149.4));
  CHECK(row.out_of_place->errors == 0);
  CHECK(row.in_place->errors == 2);
  CHECK_FALSE(table.rows[0].in_place->errors);
}

TEST_CASE("old columns: no root, error instead of #wrong, no operation") {
  const CollectiveTable reduced = parse_one(
      "#       size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
      "  1048576  262144  float  sum  45.6  22.99  40.24  1e-06  44.1  23.77  41.60  2e-06\n",
      kEight);
  CHECK(to_microseconds(reduced.rows.at(0).in_place->time) == Approx(44.1));
  const CollectiveTable gathered = parse_one(
      "#       size  count  type  time  algbw  busbw  error  time  algbw  busbw  error\n"
      "  1048576  32768  float  45.6  22.99  20.12  0e+00  44.1  23.77  20.80  0e+00\n",
      {.kind = CollectiveKind::all_gather, .ranks = 8, .nodes = {}});
  CHECK(to_microseconds(gathered.rows.at(0).out_of_place->time) == Approx(45.6));
  CHECK(gathered.rows.at(0).out_of_place->errors == 0);
}

TEST_CASE("newer columns: per-iteration statistics and time stamps") {
  const CollectiveTable table = parse_one(
      "#  size  count  type  redop  root  time  algbw  busbw #wrong  i_min  i_max  i_p99  i_cv%  "
      "time  algbw  busbw #wrong  i_min  i_max  i_p99  i_cv%  timestamp\n"
      " 1048576 262144 float sum -1 45.6 22.99 40.24 0 44 47 46.9 1.2 44.1 23.77 41.60 0 43 46 "
      "45.9 1.1 2026-01-29T18:00:01\n",
      kEight);
  CHECK(to_microseconds(table.rows.at(0).out_of_place->time) == Approx(45.6));
  CHECK(to_microseconds(table.rows.at(0).in_place->time) == Approx(44.1));
}

TEST_CASE("launchers' tags are dropped") {
  const std::string prefix =
      GENERATE("[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", " 12: ", "node01: ", "\x1b[32m",
               "2026-01-29T18:00:01.123Z stdout F ");
  std::string text;
  for (const std::string line :
       {"# Collective test starting: all_reduce_perf",
        "#  Rank  7 Group  0 Pid   3119 on     node1 device  7 [0x1b] NVIDIA H100",
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
        "  1048576  262144  float  sum  -1  45.6  22.99  40.24  0  44.1  23.77  41.60  0"}) {
    text += prefix + line + "\r\n";
  }
  const CollectiveTable table = parse_one(text, kEight);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0].size == mebibytes(1));
  CHECK(to_microseconds(table.rows[0].out_of_place->time) == Approx(45.6));
}

TEST_CASE("NCCL's debug lines may cut a row in two") {
  const CollectiveTable table =
      parse_one(kHeader +
                    "node1:3119:3150 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7\n"
                    "  8  2  float  sum  -1node1:3119:3150 [0] NCCL INFO Connected all rings\n"
                    "node1:3120:3151 [1] NCCL INFO Connected all trees\n"
                    "  23.69  0.00  0.00  0  22.16  0.00  0.00  0\n"
                    "  16  4  float  sum  -1  23.70  0.00  0.00  0  22.17  0.00  0.00  0\n",
                kEight);
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].size == bytes(8));
  CHECK(to_microseconds(table.rows[0].out_of_place->time) == Approx(23.69));
  CHECK(to_microseconds(table.rows[1].in_place->time) == Approx(22.17));
}

TEST_CASE("cut tables keep their whole rows") {
  const std::string whole = "  8  2  float  sum  -1  23.69  0.00  0.00  0  22.16  0.00  0.00  0\n";
  const CollectiveTable unmeasured = parse_one(kHeader + whole + "  16  4  float  sum  -1", kEight);
  CHECK(unmeasured.rows.size() == 1);
  CHECK(unmeasured.notes.size() == 1);
  const CollectiveTable half =
      parse_one(kHeader + whole + "  16  4  float  sum  -1  23.7  0.00  0.00  0  22.1", kEight);
  REQUIRE(half.rows.size() == 2);
  CHECK(half.rows[1].out_of_place);
  CHECK_FALSE(half.rows[1].in_place);
  const CollectiveTable missing = parse_one(
      kHeader + whole + "  16  4  float  sum  -1  N/A  N/A  N/A  N/A  22.1  0.00  0.00  0\n",
      kEight);
  REQUIRE(missing.rows.size() == 2);
  CHECK_FALSE(missing.rows[1].out_of_place);
  CHECK(missing.rows[1].in_place);
}

TEST_CASE("several tables in a file") {
  const std::string row = "  1048576  262144  float  sum  -1  45.6  22.99  40.24  0\n";
  const auto tables =
      parse_nccl_tests("# Collective test starting: all_reduce_perf\n" + kHeader + row + row +
                           "# Collective test starting: reduce_scatter_perf\n" + kHeader + row,
                       "log.txt", {.kind = {}, .ranks = 8, .nodes = {}});
  REQUIRE(tables.size() == 3);
  CHECK(tables[0].kind == CollectiveKind::all_reduce);
  CHECK(tables[1].notes.front() == "6: sizes start again: a new table");
  CHECK(tables[2].kind == CollectiveKind::reduce_scatter);
}

TEST_CASE("what a log does not say is inferred from its bandwidths, and said") {
  const CollectiveTable table = parse_one(
      kHeader + "  1073741824 268435456 float sum -1 4000 268.4 469.7 0 4000 268.4 469.7 0\n");
  CHECK(table.kind == CollectiveKind::all_reduce);
  CHECK(table.ranks == 8);
  CHECK(table.notes.size() == 2);
  CHECK_FALSE(table.nodes);
}

TEST_CASE("files of rccl-tests and nccl-tests") {
  const CollectiveTable csv = parse_one(
      "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,time,"
      "algbw,busbw,#wrong\n"
      "0,AllReduce,2,16,8,1,1024,float,sum,0,50.0,0.02,0.04,0\n"
      "0,AllReduce,2,16,8,1,1024,float,sum,1,51.0,0.02,0.04,N/A\n"
      "0,AllReduce,2,16,8,1,2048,float,sum,0,60.0,0.03,0.06,0\n"
      "0,AllReduce,2,16,8,1,20");
  CHECK(csv.kind == CollectiveKind::all_reduce);
  CHECK(csv.ranks == 16);
  CHECK(csv.nodes == 2);
  REQUIRE(csv.rows.size() == 2);
  CHECK(to_microseconds(csv.rows[0].in_place->time) == Approx(51));
  CHECK(csv.notes.front() == "5: row cut, left out");

  const CollectiveTable flat = parse_one(
      R"([{"numCycle":0, "name":"AllGather", "nodes":1, "ranks":8, "ranksPerNode":8,
        "gpusPerRank":1, "size":1024, "type":"half", "redop":"none", "inPlace":0, "time":50.0,
        "algBw":0.02, "busBw":0.02, "wrong":"N/A"}])");
  CHECK(flat.kind == CollectiveKind::all_gather);
  CHECK(flat.ranks == 8);
  CHECK(to_microseconds(flat.rows.at(0).out_of_place->time) == Approx(50));

  const CollectiveTable json = parse_one(
      R"({"version": 1, "args": ["./build/alltoall_perf", "-J", "out.json"], "config": {
        "nthreads": 1, "devices": [{"rank": 0, "hostname": "a"}, {"rank": 1, "hostname": "b"}]},
        "results": [{"size": 1024, "count": 256, "type": "float", "redop": "none", "root": "-1",
        "out_of_place": {"time": 12.5, "alg_bw": 0.08, "bus_bw": 0.04, "nwrong": null},
        "in_place": null}]})");
  CHECK(json.kind == CollectiveKind::all_to_all);
  CHECK(json.ranks == 2);
  CHECK(json.nodes == 2);
  CHECK(to_microseconds(json.rows.at(0).out_of_place->time) == Approx(12.5));
  CHECK_FALSE(json.rows.at(0).in_place);
}

TEST_CASE("errors of a log point at its line") {
  CHECK(error_of("nothing here\n") == "log.txt: no table of nccl-tests or rccl-tests found");
  CHECK(error_of("") == "log.txt: no table of nccl-tests or rccl-tests found");
  CHECK(error_of(kHeader + "  8  2  float  sum  -1  oops  0.00  0.00  0\n", kEight) ==
        "log.txt:4: \"oops\" where a number or N/A is expected");
  CHECK(error_of(kHeader + "  8  2  float  sum  -1  1  2  3  4  5  6  7  8  9  10\n", kEight) ==
        "log.txt:4: a row with 10 more columns, expected 4 or 8");
  CHECK(error_of(kHeader + "  8  2  float  none  -1  23.69  0.00  0.00  0\n")
            .find("log.txt:4: the collective is not named") == 0);
  CHECK(error_of(kHeader + "  8  2  float  sum  -1  23.69  0.00  0.00  0\n",
                 {.kind = CollectiveKind::all_reduce, .ranks = {}, .nodes = {}})
            .find("log.txt:4: the number of ranks is not in the file") == 0);
  CHECK(error_of("numCycle,collective,size,type,time,algbw,busbw\n0,AllReduce,8,float,x,1,2\n",
                 kEight) == "log.txt:2: time: expected a number, found \"x\"");
  CHECK(error_of("{\"results\": [{\"size\": \"x\"}]}", kEight).find("log.txt:1:23") == 0);
}

TEST_CASE("recorded logs import whole") {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FLOPCAST_TEST_DATA) + "/nccl/logs")) {
    CAPTURE(entry.path().filename().string());
    const CollectiveTable table = only(import_nccl_tests(entry.path()));
    // The name of a file says what it holds: hardware_kind_ranks...
    const std::string name = entry.path().filename().string();
    const bool named =
        (name.find("_ar_") != std::string::npos) == (table.kind == CollectiveKind::all_reduce);
    CHECK(named);
    CHECK(name.find("_" + std::to_string(table.ranks) + "gpu") != std::string::npos);
    CHECK(table.nodes);
    CHECK(table.rows.size() >= 3);
    CHECK(table.notes.empty());
    ++files;
  }
  CHECK(files > 40);
}

// Any prefix of a log, and any byte of it changed, gives a result or a proper error.
TEST_CASE("broken logs never crash the reader") {
  const std::string text =
      "# Collective test starting: all_reduce_perf\n"
      "#  Rank  1 Group  0 Pid   3119 on  node1 device  1 [0x1b] NVIDIA H100\n" +
      kHeader + "  8  2  float  sum  -1  23.69  0.00  0.00  0  22.16  0.00  0.00  0\n" +
      "[1,0]<stdout>: 16 4 float sum -1  23.69  0.00  0.00  0  22.16  0.00  0.00  N/A\n";
  const auto survives = [](const std::string& broken) {
    try {
      parse_nccl_tests(broken, "log.txt");
    } catch (const InputError&) {
    }
    return true;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK(survives(text.substr(0, i)));
    for (const char c : {'\0', '\n', ' ', '#', '-', '9', '[', '<', '\x1b', '\xff'}) {
      std::string broken = text;
      broken[i] = c;
      CHECK(survives(broken));
    }
  }
}

}  // namespace flopcast
