// The program from outside: exit codes, streams, files.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kExample = "scenarios/examples/llama3-8b-8-h100.json";

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "flopcast-cli-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// Runs `flopcast <arguments>` in the source folder; the shell reads the arguments.
Outcome flopcast(const std::string& arguments, const std::string& environment = "") {
  const TemporaryFolder folder;
  const std::string command = std::string("cd '") + FLOPCAST_SOURCE_DIR +
                              "' && env -u FLOPCAST_DATA " + environment + " '" + FLOPCAST_PROGRAM +
                              "' " + arguments + " >'" + (folder / "out").string() + "' 2>'" +
                              (folder / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder / "out"),
          contents(folder / "err")};
}

}  // namespace

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

TEST_CASE("import reads a log of nccl-tests and holds it against its machine") {
  const std::string log = "tests/data/nccl/logs/h100-sxm_ar_16gpu_2n_ndr400x8_t309.txt";
  const json read = json::parse(flopcast("import " + log + " --format json").out);
  CHECK(read["tables"][0]["ranks"] == 16);
  CHECK(read["tables"][0]["rows"].size() == 32);
  const Outcome checked = flopcast("import " + log + " --check --system dgx-h100 --nodes 2");
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out, Contains("reached") && Contains("as expected"));
}

TEST_CASE("topology holds a log against the links of a cluster and names causes") {
  const std::string logs = "tests/data/nccl/logs/";
  const std::string show = "topology show --format json --system dgx-h100 --nodes 2 ";
  const std::string good = "--check " + logs + "h100-sxm_ar_16gpu_2n_ndr400x8_t309.txt";
  const Outcome healthy = flopcast(show + good);
  CHECK(healthy.code == 0);
  const json log = json::parse(healthy.out)["logs"][0];
  CHECK(log["healthy"] == true);
  CHECK(log["nodes"] == 2);
  // 1 GiB over two nodes: each sends 2 (2-1)/2 S by 8 cards of 50 GB/s, 2.684 ms. S of a GPU by
  // NVLink with its switches' sums takes 2.386 ms.
  for (const json& row : log["rows"]) {
    if (row["bytes"] == 1 << 30) CHECK(row["links_time_s"] == Approx(2.684e-3).epsilon(1e-3));
    CHECK(row["reached_of_links"] < 1.05);
  }

  // A quarter of what eight cards carry: the source found no cause; the level is shown.
  const Outcome slow =
      flopcast(show + "--check " + logs + "h100-sxm_ar_16gpu_2n_ndr400x8_t290-ring-fault.txt");
  CHECK(slow.code == 1);
  const json fault = json::parse(slow.out)["logs"][0];
  CHECK(fault["shortfalls"][0] == "bandwidth");
  CHECK_THAT(fault["likely_causes"].dump(),
             Contains("no GPUDirect RDMA") && Contains("% of what the links carry, "));
  const Outcome table = flopcast("topology show --system dgx-h100 --nodes 2 --check " + logs +
                                 "h100-sxm_ar_16gpu_2n_ndr400x8_t290-ring-fault.txt");
  CHECK_THAT(table.out, Contains("of links") && Contains("because: "));

  // The same healthy log is above the model of a cluster without GPUDirect, and does not fit one
  // node.
  const Outcome staged = flopcast(show + "--set cluster.transport=host_memory " + good);
  CHECK(json::parse(staged.out)["logs"][0]["rows"].back()["reached_of_links"] > 1.5);
  const Outcome small = flopcast("topology show --system dgx-h100 --nodes 1 " + good);
  CHECK(small.code == 2);
  CHECK_THAT(small.err, Contains("16 ranks on 2 nodes, but the cluster has 8 GPUs"));
}

// Without GDRCopy small messages take 1.6 to 2 times as long, says the source: within what sites
// differ, but not what the machine took before.
TEST_CASE("topology holds a log against one of the same machine when it was well") {
  const std::string logs = "tests/data/nccl/logs/gh200_ar_8gpu_2n_slingshot200x4_alps-";
  const std::string show =
      "topology show --format json --system alps-gh200 --nodes 2 --check " + logs + "nogdrcopy.txt";
  CHECK(flopcast(show).code == 0);
  const Outcome slow = flopcast(show + " --healthy " + logs + "tuned.txt");
  CHECK(slow.code == 1);
  const json log = json::parse(slow.out)["logs"][0];
  CHECK(log["evidence"] == "measured");
  CHECK(log["shortfalls"] == json::array({"latency"}));
  CHECK_THAT(log["likely_causes"].dump(), Contains("GDRCopy off"));
  for (const json& row : log["rows"]) {
    if (row["bytes"] > 256) continue;
    CHECK(row["reached_of_model"] > 1 / 2.1);
    CHECK(row["reached_of_model"] < 1 / 1.5);
  }
  const Outcome alone = flopcast("topology show --system alps-gh200 --nodes 2 --healthy " + logs +
                                 "tuned.txt");
  CHECK(alone.code == 2);
  CHECK_THAT(alone.err, Contains("--healthy: expected --check LOG..."));
}

TEST_CASE("calibrate fits logs into a profile that a run uses") {
  const TemporaryFolder folder;
  const std::string profile = (folder / "mine.json").string();
  const Outcome outcome = flopcast(
      "calibrate --from tests/data/nccl/logs/h100-sxm_ar_8gpu_aic-2.29.2.txt"
      " --system dgx-h100 -o '" +
      profile + "'");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("all_reduce") && Contains("No row was left out") &&
                              Contains("Predicted for shapes"));
  const Outcome run =
      flopcast("run " + kExample + " --set expect={} --set 'profile=" + profile + "'");
  CHECK(run.code == 0);
  CHECK_THAT(flopcast("calibrate").err, Contains("--from LOG"));
  CHECK(flopcast("calibrate").code == 3);
  CHECK_THAT(flopcast("calibrate --from tests/data/nccl/logs/h100-sxm_ar_8gpu_aic-2.29.2.txt"
                      " --system grand-teton-h100 --sharp")
                 .err,
             Contains("--sharp: only InfiniBand switches reduce"));
}

TEST_CASE("calibrate fits samples of kernels into a profile that a run uses") {
  const TemporaryFolder folder;
  const std::string profile = (folder / "mine.json").string();
  const std::string report = (folder / "report.json").string();
  const Outcome outcome = flopcast(
      "calibrate --from calibration/data/kernels/gemm.csv --where gpu=h200-sxm --base h100-sxm"
      " --json '" +
      report + "' -o '" + profile + "'");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("gemm bf16") && Contains("gemm fp8") && Contains("held back"));
  const json fits = json::parse(contents(report))["fits"];
  CHECK(fits[0]["kernel"] == "gemm bf16");
  CHECK(fits[0]["held_back"]["median"] < 0.04);
  CHECK(fits[0]["parameters"]["eff_inf"]["low"] <= fits[0]["parameters"]["eff_inf"]["value"]);
  const Outcome run = flopcast("run " + kExample +
                               " --format json --set expect={} --set 'profile=" + profile + "'");
  CHECK(run.code == 0);
  CHECK(flopcast("calibrate --from calibration/data/kernels/gemm.csv --base h100-sxm").code == 2);
  CHECK_THAT(flopcast("calibrate --from calibration/data/kernels/gemm.csv --base h100-sxn").err,
             Contains("did you mean \"h100-sxm\""));
}

TEST_CASE("calibrate writes how repeated kernels vary, and a run reads it") {
  const TemporaryFolder folder;
  const std::string record = (folder / "node.jsonl").string();
  const std::string profile = (folder / "mine.json").string();
  const std::string report = (folder / "report.json").string();
  // +-0.02 in the logarithm: a deviation of 0.02 * sqrt(4 / 3).
  std::ofstream(record)
      << "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA H100 80GB HBM3\"}\n"
      << R"({"case":"op=gemm repeated=1","op":"gemm","repeated":1,"median_us":100,)"
      << R"("time_us":[102.0201,98.0199,102.0201,98.0199],"throttled":[0,0,0,0]})"
      << "\n";
  const Outcome outcome = flopcast("calibrate --from '" + record + "' --base h100-sxm --json '" +
                                   report + "' -o '" + profile + "'");
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("Repeated kernels vary by 2.31 %") && Contains("runs: 4"));
  CHECK(json::parse(contents(report))["kernel_spread"]["sigma"] == Approx(0.0231).epsilon(1e-3));
  const json written = json::parse(contents(profile));
  CHECK(written["kernel_spread"]["sigma"] == Approx(0.02309).epsilon(1e-3));
  CHECK(written["kernel_spread"]["evidence"] == "measured");
  CHECK(flopcast("run " + kExample + " --set expect={} --set jitter.kernel_sigma=profile").code ==
        2);  // none is shipped
  const Outcome run = flopcast("run " + kExample + " --set expect={} --set 'profile=" + profile +
                               "' --set jitter.kernel_sigma=profile --set jitter.steps=3");
  CAPTURE(run.err);
  CHECK(run.code == 0);
}

TEST_CASE("calibrate fits the network to the collectives of its own record") {
  const TemporaryFolder folder;
  const std::string record = (folder / "node.jsonl").string();
  const std::string profile = (folder / "mine.json").string();
  std::string text = "{\"flopcast_samples\":1,\"gpu\":\"NVIDIA H100 80GB HBM3\"}\n";
  // A GEMM alone, repeated, and 25 % slower beside an all-reduce.
  text += R"({"case":"g repeated=1","op":"gemm","repeated":1,"median_us":80,"time_us":[80,80]})";
  text += "\n";
  text += R"({"case":"g beside_op=all_reduce","op":"gemm","beside_op":"all_reduce",)"
          R"("beside_ranks_per_node":8,"beside_nodes":1,"median_us":100})";
  text += "\n";
  // nccl-tests on eight H100: tests/data/nccl/logs/h100-sxm_ar_8gpu_aic-2.29.2.txt.
  for (const auto& [size, time] : {std::pair<std::string, std::string>{"1048576", "25.4"},
                                   {"16777216", "121.91"},
                                   {"67108864", "324.53"},
                                   {"268435456", "1092.1"}}) {
    text += R"({"case":"c)" + size + R"(","op":"all_reduce","size_bytes":)" + size +
            R"(,"ranks_per_node":8,"nodes":1,"median_us":)" + time + "}\n";
  }
  std::ofstream(record) << text;
  const Outcome outcome = flopcast("calibrate --from '" + record +
                                   "' --base h100-sxm --system dgx-h100 -o '" + profile + "'");
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("takes 20.0 % of the kernels") && Contains("all_reduce") &&
                              Contains("Predicted for shapes"));
  const json written = json::parse(contents(profile));
  CHECK(written["network"]["compute_share"]["domain"] == Approx(0.2));
  CHECK(written["kernel_spread"]["sigma"] == 0);
  CHECK(written["network"].contains("regimes"));
  const json& curve = written["curves"].back();
  CHECK(curve["kind"] == "all_reduce");
  CHECK(curve["points"].size() == 4);
}

TEST_CASE("calibrate draws measured against fitted times") {
  const TemporaryFolder folder;
  const std::string plot = (folder / "fit.svg").string();
  const Outcome outcome = flopcast(
      "calibrate --from calibration/data/kernels/memory.csv --where gpu=h200-sxm --base h200-sxm"
      " --plot '" +
      plot + "'");
  CHECK(outcome.code == 0);
  const std::string drawn = contents(plot);
  CHECK(drawn.starts_with("<svg"));
  CHECK_THAT(drawn, Contains("memory elementwise") && Contains("39 fitted, 6 held back") &&
                        Contains("</svg>"));
  // One dot for each sample.
  std::size_t dots = 0;
  for (std::size_t at = drawn.find("h0"); at != std::string::npos; at = drawn.find("h0", at + 1)) {
    ++dots;
  }
  CHECK(dots == 39 + 6);
}

TEST_CASE("profiles are listed, shown and compared") {
  CHECK_THAT(flopcast("profile list").out, Contains("mi355x") && Contains("fitted"));
  CHECK_THAT(flopcast("profile show h20-sxm").out,
             Contains("gemm bf16") && Contains("0.96") && Contains("assumed"));
  const Outcome same = flopcast("profile diff h100-sxm h100-sxm");
  CHECK_THAT(same.out, Contains("hold the same numbers"));
  CHECK_THAT(flopcast("profile diff h100-sxm h200-sxm").out,
             Contains("memory bandwidth") && Contains("4800 GB/s") && Contains("1.433"));
  CHECK(flopcast("profile").code == 2);
}

TEST_CASE("validate kernels prints its table") {
  const Outcome outcome = flopcast("validate kernels --gpu rtx4090 --md");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Contains("| rtx4090") && Contains("gemm bf16"));
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

TEST_CASE("topology shows a cluster by name or of a scenario") {
  const std::string named = "topology show --system dgx-h100 --nodes 64 --fabric fat_tree ";
  const std::string oversubscribed = named + "--set cluster.fabric.oversubscription=2 ";
  const Outcome table = flopcast(oversubscribed);
  CHECK(table.code == 0);
  CHECK_THAT(table.out, Contains("bisection") && Contains("leaf_uplink") && Contains("2.00 : 1") &&
                            Contains("assumed"));
  // 32 nodes of 8 cards of 50 GB/s on either side, half of their cables.
  const json found = json::parse(flopcast(oversubscribed + "--format json").out);
  CHECK(found["bisection_bytes_per_second"].get<double>() == Approx(32 * 8 * 50e9 / 2));
  CHECK(found["tiers"][1]["oversubscription"].get<double>() == Approx(2));
  CHECK(json::parse(flopcast("topology show " + kExample + " --format json").out)["gpus"] == 8);
  const TemporaryFolder folder;
  const fs::path dot = folder / "graph.dot";
  CHECK(flopcast("topology show --system dgx-h100 --nodes 2 --dot '" + dot.string() + "'").code ==
        0);
  CHECK_THAT(contents(dot), Contains("digraph cluster"));
  const Outcome wrong = flopcast("topology show --system dgx-h100 --nodes 2 --fabric fat_treee");
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("did you mean \"fat_tree\"?"));
  CHECK(flopcast("topology show").code == 2);
  CHECK(flopcast("topology show --format xml --system dgx-h100 --nodes 1").code == 2);
}

TEST_CASE("an imported node is a system that a scenario takes") {
  const TemporaryFolder folder;
  const fs::path matrix = folder / "topo.txt";
  std::ofstream(matrix) << "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n"
                           "GPU0\t X \tNV12\tPXB\tSYS\t0-31\nGPU1\tNV12\t X \tSYS\tPXB\t32-63\n";
  const Outcome imported = flopcast("topology import '" + matrix.string() +
                                    "' --gpu a100-sxm --nic-bandwidth '200 Gb/s'");
  REQUIRE(imported.code == 0);
  json scenario{{"cluster", {{"system", json::parse(imported.out)}, {"nodes", 4}}}};
  const fs::path file = folder / "cluster.json";
  std::ofstream(file) << scenario;
  const Outcome shown = flopcast("topology show '" + file.string() + "' --format json");
  REQUIRE(shown.code == 0);
  CHECK(json::parse(shown.out)["gpus"] == 8);
  CHECK(flopcast("topology import '" + matrix.string() + "' --gpu a100-sxm").code == 2);
}
