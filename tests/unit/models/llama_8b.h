#pragma once

// Llama 3 8B, data parallel, as tests of whole steps against closed forms take it.

#include "golden_models.h"
#include "models/lower.h"

namespace flopcast::test {

inline constexpr double kLlama8B = 8030261248;  // its parameters

inline Job llama_8b(int dp) {
  Job job;
  job.model = golden_model("llama3-8b");
  job.layout.grid.dp = dp;
  job.layout.zero = dp > 1 ? 1 : 0;
  job.training.framework.vocab_divisor = 1;
  job.training.batch = {.sequence = 1024, .micro_batch = 1, .global_batch = dp};
  return job;
}

}  // namespace flopcast::test
