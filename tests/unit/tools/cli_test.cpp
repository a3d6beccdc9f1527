// The program from outside: exit codes, streams, files.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "command_line.h"

using namespace cli;
using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("a run prints its table without colour and passes") {
  const Outcome outcome = flopcast("run " + kExample + " --set expect={}");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("step time") && Contains("tokens/s per GPU") &&
                              Contains("MFU") && Contains("Where the step goes"));
  CHECK(outcome.out.find('\x1b') == std::string::npos);
  CHECK(outcome.err.empty());
}

TEST_CASE("the same run gives the same bytes") {
  const std::string arguments = "run " + kExample + " --format json";
  CHECK(flopcast(arguments).out == flopcast(arguments).out);
}

TEST_CASE("a missed expectation is exit code 1, with the answer") {
  const Outcome outcome = flopcast("run " + kExample + " --set 'expect.step_time.max=1 ms'");
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.out, Contains("FAIL") && Contains("to 1.000 ms"));
}

TEST_CASE("several files: tables in turn, a JSON array, one CSV row each") {
  const std::string two = kExample + " scenarios/examples/gpt-22b-8-a100.json --set expect={}";
  CHECK_THAT(flopcast("run " + two).out,
             Contains("llama3-8b-8-h100\n") && Contains("gpt-22b-8-a100\n"));
  CHECK(json::parse(flopcast("run --format json " + two).out).size() == 2);
  const std::string csv = flopcast("run --format csv " + two).out;
  CHECK(std::ranges::count(csv, '\n') == 3);
}

TEST_CASE("settings change the scenario, the later one wins") {
  const Outcome outcome = flopcast("run " + kExample +
                                   " --format json --set training.micro_batch=2"
                                   " --set training.micro_batch=1 --set expect={}");
  CHECK(json::parse(outcome.out)["question"]["training"]["micro_batch_sequences"] == 1);
}

TEST_CASE("report and trace go to files") {
  const TemporaryFolder folder;
  const fs::path report = folder / "report.json";
  const fs::path trace = folder / "run.trace.json";
  const Outcome outcome = flopcast("run " + kExample + " --set expect={} --format json -o '" +
                                   report.string() + "' --trace '" + trace.string() + "'");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.empty());
  CHECK(json::parse(contents(report))["schema_version"] == 1);
  CHECK(json::parse(contents(trace))["traceEvents"].size() > 100);
}

TEST_CASE("every rank goes to a table and, as it runs, to a timeline") {
  const TemporaryFolder folder;
  const fs::path trace = folder / "run.trace.json";
  const fs::path ranks = folder / "ranks.json";
  const Outcome outcome =
      flopcast("run " + kExample + " --set expect={} --format json --fold off" + " --trace '" +
               trace.string() + "' --ranks '" + ranks.string() + "'");
  CHECK(outcome.code == 0);
  const json report = json::parse(outcome.out);
  const json rows = json::parse(contents(ranks));
  CHECK(rows.size() == report["question"]["machine"]["gpus"]);
  for (const json& row : rows) {
    const double sum = row["compute_s"].get<double>() + row["exposed_s"].get<double>() +
                       row["waiting_s"].get<double>() + row["idle_s"].get<double>();
    CHECK(sum == Approx(report["speed"]["step_time_s"].get<double>()).epsilon(1e-9));
  }
  std::set<int> processes;
  const json timeline = json::parse(contents(trace));
  for (const json& event : timeline["traceEvents"]) {
    if (event["ph"] == "X") processes.insert(event["pid"].get<int>());
  }
  CHECK(processes.size() == rows.size());
}

TEST_CASE("conventions change MFU") {
  const auto mfu = [](const std::string& convention) {
    const Outcome outcome =
        flopcast("run " + kExample + " --format json --convention " + convention);
    return json::parse(outcome.out)["speed"]["mfu"].get<double>();
  };
  CHECK(mfu("megatron") < mfu("megatron_full"));
  CHECK(mfu("six_n") < mfu("palm"));
}

TEST_CASE("validate compares published runs, a sample of them") {
  const Outcome outcome = flopcast("validate --sample 1 --only 'korthikanti-22B-*' --worst 1");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("Absolute errors") && Contains("source korthikanti") &&
                              Contains("1 largest errors"));
  const Outcome none = flopcast("validate --only no-such-run");
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("none that --only names"));
}

TEST_CASE("check fits or does not") {
  const Outcome fits = flopcast("check " + kExample + " --set training.recompute=full");
  CHECK(fits.code == 0);
  CHECK_THAT(fits.out, Contains("fits: ") && Contains("activations"));
  const Outcome every_rank =
      flopcast("check " + kExample + " --set training.recompute=full --fold off");
  CHECK(every_rank.code == 0);
  CHECK(every_rank.out == fits.out);
  const Outcome too_large = flopcast(
      "check " + kExample + " --set training.micro_batch=8 --set training.global_batch=64");
  CHECK(too_large.code == 1);
  CHECK_THAT(too_large.out,
             Contains("DOES NOT FIT") && Contains("the largest ledger is activations"));
}

TEST_CASE("wrong input is exit code 2 and says what was meant") {
  struct WrongInput {
    std::string arguments;
    std::string message;
  };
  const auto row = GENERATE(values<WrongInput>({
      {"", "no verb"},
      {"rnu x", "unknown verb \"rnu\"; did you mean \"run\"?"},
      {"--verison", "unknown option \"--verison\"; did you mean \"--version\"?"},
      {"run", "FILE is required"},
      {"run " + kExample + " --fromat json",
       "run: unknown option \"--fromat\"; did you mean \"--format\"?"},
      {"run " + kExample + " --format jsn", "did you mean \"json\"?"},
      {"run " + kExample + " --convention palms", "did you mean \"palm\"?"},
      {"run no-such-file.json", "no-such-file.json"},
      {"run " + kExample + " --set parralel.tp=2", "did you mean \"parallel\"?"},
      {"run " + kExample + " --set parallel.tp", "expected KEY=VALUE"},
      {"run " + kExample + " --set parallel.tp=3", "nearest legal tp"},
      {"run " + kExample + " --set model=llama3-8bb", "did you mean \"llama3-8b\"?"},
      {"run " + kExample + " --set expect.step_time.max=12", "a time such as"},
      {"run " + kExample + " --data /", "--data: / holds no catalogue/"},
      {"run " + kExample + " " + kExample + " --trace t.json", "--trace: one scenario at a time"},
      {"run " + kExample + " " + kExample + " --ranks r.csv", "--ranks: one scenario at a time"},
      {"run " + kExample + " --ranks r.txt", "ends in .csv or .json, found \"r.txt\""},
      {"check " + kExample + " --fold of", "did you mean \"off\"?"},
      {"check " + kExample + " --format json", "check: unknown option \"--format\""},
  }));
  CAPTURE(row.arguments);
  const Outcome outcome = flopcast(row.arguments);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, Contains("flopcast: ") && Contains(row.message));
  CHECK(outcome.out.empty());
}

TEST_CASE("a file with a mistake is named with the line") {
  const TemporaryFolder folder;
  const fs::path file = folder / "wrong.json";
  std::ofstream(file) << "{\n  \"model\": \"llama3-8b\",\n  \"cluster\": {,}\n}\n";
  const Outcome outcome = flopcast("run '" + file.string() + "'");
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, Contains("wrong.json:3:"));
}

TEST_CASE("what cannot be written is exit code 3") {
  for (const std::string option : {"-o", "--trace", "--ranks"}) {
    const Outcome outcome = flopcast("run " + kExample + " " + option + " /no/such/folder/x.json");
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err,
               Contains("cannot write /no/such/folder/x.json: No such file or directory"));
  }
}

TEST_CASE("the version says what was built in") {
  const Outcome outcome = flopcast("--version");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("flopcast ") && Contains("CUDA: ") && Contains("NCCL: ") &&
                              Contains("MPI: ") && Contains("report: "));
}

TEST_CASE("help is on standard output and passes") {
  for (const std::string arguments : {"--help", "run --help", "check --help"}) {
    const Outcome outcome = flopcast(arguments);
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, Contains("Usage"));
  }
}

TEST_CASE("data folders come from --data, then FLOPCAST_DATA") {
  const std::string run = "run " + kExample + " --set expect={}";
  CHECK(flopcast(run, "FLOPCAST_DATA=/no/such").code == 2);
  CHECK(flopcast(run + " --data .", "FLOPCAST_DATA=/no/such").code == 0);
  CHECK(flopcast(run, "FLOPCAST_DATA=.").code == 0);
}
