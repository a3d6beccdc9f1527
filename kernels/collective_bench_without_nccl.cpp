// Ranks of a build that found no NCCL: there are none.

#include "kernels/collective_bench.h"
#include "sim/errors.h"

namespace flopcast {

struct Ranks::State {};

Ranks::Ranks(const std::optional<RankPlace>&, int) {
  throw DeviceError("collectives: this build has no NCCL");
}
Ranks::~Ranks() = default;
bool Ranks::several_processes() const { return false; }
bool Ranks::agree(bool first_rank_says) { return first_rank_says; }
void Ranks::prepare(const CollectiveCase&, cudaStream_t) {}
void Ranks::launch() {}
void Ranks::wait() {}
double Ranks::error_over_tolerance() const { return 0; }

bool has_nccl() { return false; }

Measurement measure_collective(Bench&, Ranks&, const CollectiveCase&, const StopRule&) {
  return {};
}

}  // namespace flopcast
