#include "sim/units.h"

#include <catch2/catch.hpp>

using namespace flopcast;

namespace {

template <class Q>
struct Row {
  std::string text;
  double base_units;
};

template <class Q>
void check_reads(const Row<Q>& row) {
  CAPTURE(row.text);
  const auto read = parse_quantity<Q>(row.text);
  REQUIRE(read.has_value());
  CHECK(read->value == Approx(row.base_units).epsilon(1e-15));
}

}  // namespace

TEST_CASE("times are read in seconds") {
  check_reads<Seconds>(GENERATE(values<Row<Seconds>>({{"3.5 us", 3.5e-6},
                                                      {"3.5us", 3.5e-6},
                                                      {"  20   ns ", 20e-9},
                                                      {"1e-3 ms", 1e-6},
                                                      {"0 s", 0},
                                                      {"2 min", 120},
                                                      {"1.5 h", 5400},
                                                      {"54 d", 4665600}})));
}

TEST_CASE("sizes are read in bytes, decimal and binary") {
  check_reads<Bytes>(GENERATE(values<Row<Bytes>>({{"1 B", 1},
                                                  {"4 kB", 4000},
                                                  {"4 KB", 4000},
                                                  {"4 KiB", 4096},
                                                  {"25 MiB", 26214400},
                                                  {"25 MB", 25e6},
                                                  {"80 GB", 80e9},
                                                  {"2 GiB", 2147483648.0},
                                                  {"1.5 TB", 1.5e12},
                                                  {"1 TiB", 1099511627776.0}})));
}

TEST_CASE("bandwidths are read in bytes per second: b is bits, B is bytes") {
  check_reads<BytesPerSecond>(GENERATE(values<Row<BytesPerSecond>>({{"450 GB/s", 450e9},
                                                                    {"400 Gb/s", 50e9},
                                                                    {"400Gb/s", 50e9},
                                                                    {"100 Mb/s", 12.5e6},
                                                                    {"1.6 Tb/s", 200e9},
                                                                    {"3.35 TB/s", 3.35e12},
                                                                    {"1 GiB/s", 1073741824.0}})));
}

TEST_CASE("operations and their rates are read") {
  check_reads<Flops>(GENERATE(values<Row<Flops>>(
      {{"12 FLOP", 12}, {"1 GFLOP", 1e9}, {"989 TFLOP", 989e12}, {"2 PFLOP", 2e15}})));
  check_reads<FlopsPerSecond>(GENERATE(values<Row<FlopsPerSecond>>({{"1 FLOP/s", 1},
                                                                    {"19.5 TFLOP/s", 19.5e12},
                                                                    {"989.4TFLOP/s", 989.4e12},
                                                                    {"2.5 PFLOP/s", 2.5e15}})));
}

TEST_CASE("what is not a quantity of the kind is not read") {
  const std::string text = GENERATE(as<std::string>{}, "", " ", "GB", "12", "12 ", "1,5 GB", "x GB",
                                    "12 gb", "12 GB/s", "inf s", "nan s", "1 2 GB", "12 Gb");
  CAPTURE(text);
  CHECK_FALSE(parse_quantity<Bytes>(text).has_value());
  CHECK_FALSE(parse_quantity<Seconds>(text).has_value());
  CHECK_FALSE(parse_quantity<Flops>(text).has_value());
  CHECK_FALSE(parse_quantity<FlopsPerSecond>(text).has_value());
}

TEST_CASE("a rate needs its per second") {
  CHECK_FALSE(parse_quantity<BytesPerSecond>("450 GB").has_value());
  CHECK_FALSE(parse_quantity<BytesPerSecond>("450 GB / s").has_value());
  CHECK_FALSE(parse_quantity<FlopsPerSecond>("989 TFLOP").has_value());
}

TEST_CASE("the example of each kind can be read as that kind") {
  const auto quoted = [](std::string_view example) {
    const auto from = example.find('"') + 1;
    return example.substr(from, example.find('"', from) - from);
  };
  CHECK(parse_quantity<Seconds>(quoted(quantity_example<Seconds>())).has_value());
  CHECK(parse_quantity<Bytes>(quoted(quantity_example<Bytes>())).has_value());
  CHECK(parse_quantity<Flops>(quoted(quantity_example<Flops>())).has_value());
  CHECK(parse_quantity<BytesPerSecond>(quoted(quantity_example<BytesPerSecond>())).has_value());
  CHECK(parse_quantity<FlopsPerSecond>(quoted(quantity_example<FlopsPerSecond>())).has_value());
}

TEST_CASE("quantities print four digits in the unit that suits") {
  CHECK(to_text(milliseconds(12.34)) == "12.34 ms");
  CHECK(to_text(seconds(0)) == "0 s");
  CHECK(to_text(seconds(90)) == "90.00 s");
  CHECK(to_text(seconds(999.96e-6)) == "1.000 ms");
  CHECK(to_text(microseconds(999.94)) == "999.9 us");
  CHECK(to_text(microseconds(9.99996)) == "10.00 us");
  CHECK(to_text(seconds(900)) == "15.00 min");
  CHECK(to_text(seconds(3 * 3600)) == "3.000 h");
  CHECK(to_text(seconds(54.0 * 86400)) == "54.00 d");
  CHECK(to_text(seconds(-0.5)) == "-500.0 ms");
  CHECK(to_text(gigabytes(80)) == "80.00 GB");
  CHECK(to_text(bytes(12)) == "12.00 B");
  CHECK(to_text(gigabytes_per_second(450)) == "450.0 GB/s");
  CHECK(to_text(gigabits_per_second(400)) == "50.00 GB/s");
  CHECK(to_text(teraflops(2500)) == "2.500 PFLOP");
  CHECK(to_text(teraflops_per_second(989.4)) == "989.4 TFLOP/s");
}

TEST_CASE("the exponents of products and ratios add up") {
  const Seconds time = gigabytes(1) / gigabytes_per_second(4);
  CHECK(time == seconds(0.25));
  const Bytes back = time * gigabytes_per_second(4);
  CHECK(back == gigabytes(1));
  const double ratio = mebibytes(3) / mebibytes(1.5);
  CHECK(ratio == 2);
}
