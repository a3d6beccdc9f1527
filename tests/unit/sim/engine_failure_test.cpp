#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "sim/engine.h"
#include "small_workload.h"

using namespace flopcast;
using namespace flopcast::test;

namespace {

constexpr LabelId kLabel{0};

/// What a function that aborts prints before; empty where it does not abort.
std::string last_words(const std::function<void()>& function) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not Catch's handler
    dup2(ends[1], STDERR_FILENO);
    function();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? text : std::string{};
}

}  // namespace

TEST_CASE("a deadlock names who waits for what") {
  SmallWorkload small;
  const TransferId transfer = small.transfer({});
  const GroupId group = small.group({RankId{0}, RankId{1}});
  ProgramBuilder first(2);
  first.collective(kSide, 0, transfer, kCommunication, kLabel);
  first.order(kSide, kMain);
  small.rank(std::move(first), {group});
  ProgramBuilder second(1);
  second.recv(kMain, 1, 3, kCommunication, kLabel);
  second.collective(kMain, 0, transfer, kCommunication, kLabel);
  const GroupId pair = small.group({RankId{0}, RankId{1}});
  small.rank(std::move(second), {group, pair});

  const std::string text = last_words([&] { run(small.workload); });
  CAPTURE(text);
  CHECK(text.find("deadlock: 3 streams") != std::string::npos);
  CHECK(text.find("rank 'rank 0', stream 'side': collective 'op' in group 'group': 1 of 2") !=
        std::string::npos);
  CHECK(text.find("rank 'rank 0', stream 'compute': wait for event 0 of stream 'side'") !=
        std::string::npos);
  CHECK(text.find("rank 'rank 1', stream 'compute': recv 'op' in group 'group': message 3") !=
        std::string::npos);
}

TEST_CASE("members that bring different collectives are an error") {
  SmallWorkload small;
  const GroupId group = small.group({RankId{0}, RankId{1}});
  for (int i = 0; i < 2; ++i) {
    ProgramBuilder program(1);
    program.collective(kMain, 0, small.transfer({}), kCommunication, kLabel);
    small.rank(std::move(program), {group});
  }
  CHECK(last_words([&] { run(small.workload); }).find("bring the same collectives") !=
        std::string::npos);
}

TEST_CASE("tables that do not fit together are errors") {
  SmallWorkload small;
  ProgramBuilder program(1);
  SECTION("no such kernel") { program.compute(kMain, KernelId{0}, kCompute, kLabel); }
  SECTION("no such transfer") {
    program.collective(kMain, 0, TransferId{0}, kCommunication, kLabel);
  }
  SECTION("no such group") {
    program.collective(kMain, 0, small.transfer({}), kCommunication, kLabel);
  }
  SECTION("more memory released than allocated") { program.release(kMain, CategoryId{0}, 1); }
  small.rank(std::move(program));
  CHECK_FALSE(last_words([&] { run(small.workload); }).empty());
}

TEST_CASE("a program that fits does not abort") {
  SmallWorkload small;
  small.rank(ProgramBuilder(1));
  CHECK(last_words([&] { run(small.workload); }).empty());
}
