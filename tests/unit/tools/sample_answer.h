#pragma once

// An answer made by hand, with numbers that are easy to find again in a report.

#include "tools/answer.h"

namespace flopcast {

/// 2 nodes of 8 GPUs, tp 8, pp 2; a step of 10 s; stage 0 the fullest with 60 of 80 GB.
inline Answer sample_answer() {
  Answer answer;
  Scenario& scenario = answer.scenario;
  scenario.name = "sample";
  scenario.cluster.system.name = "dgx-h100";
  scenario.cluster.system.gpu.name = "h100-sxm";
  scenario.cluster.nodes = 2;
  scenario.job.model.name = "llama3-8b";
  scenario.job.layout.grid.tp = 8;
  scenario.job.layout.grid.pp = 2;
  scenario.job.layout.zero = 1;
  scenario.job.layout.sequence_parallel = true;
  scenario.job.training.batch = {.sequence = 8192, .micro_batch = 1, .global_batch = 16};
  scenario.profile.name = "h100-sxm";

  StepReport& report = answer.report;
  report.gpus = 16;
  report.micro_batches = 16;
  report.tokens = 131072;
  report.parameters = 8030261248;
  report.schedule = "1f1b";
  report.step = seconds(10);
  report.evidence = Evidence::fitted;
  report.tokens_per_second = 13107.2;
  report.tokens_per_second_per_gpu = 819.2;
  report.model_flops = teraflops(64000);
  report.hardware_flops = teraflops(72000);
  report.peak = teraflops_per_second(1000);
  report.model_flops_per_gpu = teraflops_per_second(400);
  report.mfu = 0.4;
  report.hfu = 0.45;
  report.breakdown = {{"forward", seconds(3), Evidence::measured},
                      {"backward", seconds(6), Evidence::fitted},
                      {"pipeline bubble", seconds(1), Evidence::assumed}};
  report.communication = {{.name = "tensor parallel",
                           .sent = gigabytes(90),
                           .calls = 1234,
                           .transfer = milliseconds(250),
                           .exposed = milliseconds(50),
                           .waiting = milliseconds(5),
                           .bus_bandwidth_gb = 360,
                           .shape = {8, 1},
                           .slowest_link = "leaf_uplink",
                           .evidence = Evidence::measured}};
  report.device_memory = gigabytes(80);
  report.memory = {{.stage = 0,
                    .layers = 16,
                    .parameters = gigabytes(10),
                    .gradients = gigabytes(5),
                    .optimizer = gigabytes(8),
                    .activations = gigabytes(30),
                    .buffers = gigabytes(3),
                    .margin = gigabytes(4)}};
  report.memory.push_back(report.memory[0]);
  report.memory[1].stage = 1;
  report.memory[1].activations = gigabytes(20);
  report.fits = true;
  report.simulated_ranks = 2;
  report.represented_ranks = 16;
  report.events = 4321;
  return answer;
}

}  // namespace flopcast
