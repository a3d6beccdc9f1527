#include "sim/program.h"

#include <catch2/catch.hpp>

using namespace flopcast;

TEST_CASE("a builder appends ops to streams in order") {
  ProgramBuilder builder(2);
  builder.allocate(0, CategoryId{3}, 100);
  builder.compute(0, KernelId{7}, CategoryId{1}, LabelId{9});
  builder.order(0, 1);
  builder.send(1, 4, 11, TransferId{5}, CategoryId{2}, LabelId{8});
  builder.order(1, 1);  // a stream is in order already
  const Program program = std::move(builder).finish();

  REQUIRE(program.streams.size() == 2);
  CHECK(program.events == 1);
  const auto& first = program.streams[0];
  REQUIRE(first.size() == 3);
  CHECK(first[0].kind == OpKind::allocate);
  CHECK(first[0].size == 100);
  CHECK(first[1].kind == OpKind::compute);
  CHECK(first[1].row == 7);
  CHECK(first[1].category == CategoryId{1});
  CHECK(first[1].label == LabelId{9});
  CHECK(first[2].kind == OpKind::record);
  const auto& second = program.streams[1];
  REQUIRE(second.size() == 2);
  CHECK(second[0].kind == OpKind::wait);
  CHECK(second[0].row == first[2].row);
  CHECK(second[1].kind == OpKind::send);
  CHECK(second[1].slot == 4);
  CHECK(second[1].tag == 11);
  CHECK(second[1].row == 5);
}
