// The program from outside: what it says of clusters, logs and measurements.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command_line.h"

using namespace cli;
using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

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
  const Outcome alone =
      flopcast("topology show --system alps-gh200 --nodes 2 --healthy " + logs + "tuned.txt");
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
