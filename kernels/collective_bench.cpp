#include "kernels/collective_bench.h"

#include <fmt/core.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/collective_reference.h"
#include "kernels/fill.h"
#include "kernels/memory_bench.h"
#include "kernels/nccl_id.h"
#include "sim/errors.h"

namespace flopcast {
namespace {

constexpr std::int64_t kCheckedElements = 64;
const Seconds kPatience = seconds(120);  // srun on a large machine starts ranks minutes apart

void check_nccl(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) {
    throw DeviceError(fmt::format("{}: {}", call, ncclGetErrorString(result)));
  }
}

// NCCL itself reads NCCL_COMM_ID, "host:port" of the first rank: no file is needed then.
ncclUniqueId shared_id(const std::optional<RankPlace>& place) {
  ncclUniqueId id{};
  static_assert(sizeof id.internal == std::tuple_size_v<IdBytes>);
  const bool first = !place || place->rank == 0;
  const bool by_address = std::getenv("NCCL_COMM_ID") != nullptr;
  if (first || by_address) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (!place || by_address) return id;
  IdBytes bytes{};
  if (first) {
    std::memcpy(bytes.data(), id.internal, bytes.size());
    leave_id(id_file(place->job), place->job, bytes);
  } else {
    bytes = find_id(id_file(place->job), place->job, kPatience);
    std::memcpy(id.internal, bytes.data(), bytes.size());
  }
  return id;
}

// Calls for several GPUs of one process start together. Closed also where one of them failed.
class GroupCalls {
 public:
  GroupCalls() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
  ~GroupCalls() {
    if (open_) ncclGroupEnd();
  }
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;
  void end() {
    open_ = false;
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool open_ = true;
};

void use(int device) { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }

// One GPU of this process.
struct Member {
  int device = 0;
  int rank = 0;
  ncclComm_t world = nullptr;
  ncclComm_t group = nullptr;
  GroupPlace place;
  std::unique_ptr<DeviceStream> stream;  // not of the first, which uses the bench's
  std::unique_ptr<DeviceMemory> send;
  std::unique_ptr<DeviceMemory> receive;
};

void call(const CollectiveCase& c, const Member& member, cudaStream_t stream) {
  const CollectiveBuffers buffers = collective_buffers(c);
  const auto send_count = static_cast<std::size_t>(buffers.send);
  const auto receive_count = static_cast<std::size_t>(buffers.receive);
  const float* from = member.send->as<float>();
  float* to = member.receive->as<float>();
  const int ranks = c.group.ranks();
  ncclComm_t comm = member.group;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
      return check_nccl(ncclAllReduce(from, to, send_count, ncclFloat, ncclSum, comm, stream),
                        "ncclAllReduce");
    case CollectiveKind::all_gather:
      return check_nccl(ncclAllGather(from, to, send_count, ncclFloat, comm, stream),
                        "ncclAllGather");
    case CollectiveKind::reduce_scatter:
      return check_nccl(
          ncclReduceScatter(from, to, receive_count, ncclFloat, ncclSum, comm, stream),
          "ncclReduceScatter");
    case CollectiveKind::broadcast:
      return check_nccl(ncclBroadcast(from, to, send_count, ncclFloat, 0, comm, stream),
                        "ncclBroadcast");
    case CollectiveKind::all_to_all:
      for (int peer = 0; peer < ranks; ++peer) {
        const std::size_t share = send_count / static_cast<std::size_t>(ranks);
        const std::size_t at = static_cast<std::size_t>(peer) * share;
        check_nccl(ncclSend(from + at, share, ncclFloat, peer, comm, stream), "ncclSend");
        check_nccl(ncclRecv(to + at, share, ncclFloat, peer, comm, stream), "ncclRecv");
      }
      return;
    case CollectiveKind::send_recv: {
      const int self = member.place.rank;
      check_nccl(ncclSend(from, send_count, ncclFloat, (self + 1) % ranks, comm, stream),
                 "ncclSend");
      check_nccl(ncclRecv(to, send_count, ncclFloat, (self + ranks - 1) % ranks, comm, stream),
                 "ncclRecv");
      return;
    }
  }
}

}  // namespace

struct Ranks::State {
  int count = 0;
  int per_node = 0;
  std::vector<Member> members;  // the first one's device stays current
  cudaStream_t first_stream = nullptr;
  CollectiveCase prepared;
  std::optional<GroupShape> shape;  // of the communicators
  std::unique_ptr<DeviceMemory> vote;

  cudaStream_t stream_of(const Member& member) const {
    return member.stream ? member.stream->get() : first_stream;
  }
  template <class F>
  void on_each(F work) {
    for (Member& member : members) {
      use(member.device);
      work(member);
    }
    use(members.front().device);
  }
};

Ranks::Ranks(const std::optional<RankPlace>& place, int gpus) : state_(std::make_unique<State>()) {
  state_->count = place ? place->ranks : gpus;
  state_->per_node = place ? place->ranks_per_node : gpus;
  state_->members.resize(place ? 1 : static_cast<std::size_t>(gpus));
  const ncclUniqueId id = shared_id(place);
  for (int i = 0; i < static_cast<int>(state_->members.size()); ++i) {
    Member& member = state_->members[static_cast<std::size_t>(i)];
    // A launcher may show a process its own GPU alone.
    member.device = place ? place->local_rank % gpus : i;
    member.rank = place ? place->rank : i;
  }
  GroupCalls calls;
  state_->on_each([&](Member& member) {
    check_nccl(ncclCommInitRank(&member.world, state_->count, id, member.rank), "ncclCommInitRank");
  });
  calls.end();
  std::error_code gone;  // every rank has read it
  if (place && place->rank == 0) std::filesystem::remove(id_file(place->job), gone);
  state_->on_each([&](Member& member) {
    if (&member != &state_->members.front()) member.stream = std::make_unique<DeviceStream>();
  });
  state_->vote = std::make_unique<DeviceMemory>(sizeof(float));
}

// What fails here has nowhere to go.
Ranks::~Ranks() {
  for (const Member& member : state_->members) {
    if (member.group != nullptr) ncclCommDestroy(member.group);
    if (member.world != nullptr) ncclCommDestroy(member.world);
  }
}

bool Ranks::several_processes() const {
  return static_cast<int>(state_->members.size()) < state_->count;
}

bool Ranks::agree(bool first_rank_says) {
  if (!several_processes()) return first_rank_says;
  float said = first_rank_says ? 1 : 0;
  float* vote = state_->vote->as<float>();
  check_cuda(cudaMemcpy(vote, &said, sizeof said, cudaMemcpyHostToDevice), "cudaMemcpy");
  check_nccl(ncclBroadcast(vote, vote, 1, ncclFloat, 0, state_->members.front().world, nullptr),
             "ncclBroadcast");
  check_cuda(cudaMemcpy(&said, vote, sizeof said, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return said > 0.5F;
}

void Ranks::prepare(const CollectiveCase& collective, cudaStream_t stream) {
  state_->prepared = collective;
  state_->first_stream = stream;
  if (state_->shape != collective.group) {
    GroupCalls calls;
    state_->on_each([&](Member& member) {
      if (member.group != nullptr) ncclCommDestroy(member.group);
      member.place = group_place(member.rank, state_->per_node, collective.group);
      check_nccl(ncclCommSplit(member.world, member.place.group, member.place.rank, &member.group,
                               nullptr),
                 "ncclCommSplit");
    });
    calls.end();
    state_->shape = collective.group;
  }
  const CollectiveBuffers buffers = collective_buffers(collective);
  state_->on_each([&](Member& member) {
    member.send = std::make_unique<DeviceMemory>(static_cast<std::size_t>(buffers.send) * 4);
    member.receive = std::make_unique<DeviceMemory>(static_cast<std::size_t>(buffers.receive) * 4);
    fill_random(ArrayType::fp32, kSeedCollective + static_cast<std::uint64_t>(member.place.rank),
                buffers.send, member.send->as<void>(), state_->stream_of(member));
  });
}

void Ranks::launch() {
  GroupCalls calls;
  state_->on_each(
      [&](const Member& member) { call(state_->prepared, member, state_->stream_of(member)); });
  calls.end();
}

void Ranks::wait() {
  state_->on_each([&](const Member& member) {
    check_cuda(cudaStreamSynchronize(state_->stream_of(member)), "cudaStreamSynchronize");
  });
}

double Ranks::error_over_tolerance() const {
  const CollectiveCase& c = state_->prepared;
  const std::int64_t size = collective_buffers(c).receive;
  double worst = 0;
  state_->on_each([&](const Member& member) {
    for (std::int64_t i = 0; i < kCheckedElements; ++i) {
      const std::int64_t at = i == 1 ? size - 1 : i * 15485863 % size;
      float got = 0;
      check_cuda(
          cudaMemcpy(&got, member.receive->as<float>() + at, sizeof got, cudaMemcpyDeviceToHost),
          "cudaMemcpy");
      const double error =
          std::abs(static_cast<double>(got) - expected_received(c, member.place.rank, at));
      worst = std::max(worst, std::isnan(error) ? 1e9 : error / collective_tolerance(c));
    }
  });
  return worst;
}

bool has_nccl() { return true; }

// The time is the first GPU's: from when its call could start to its end. Ranks are aligned before
// each sample by the agreement on the one before.
Measurement measure_collective(Bench& bench, Ranks& ranks, const CollectiveCase& collective,
                               const StopRule& rule) {
  ranks.prepare(collective, bench.stream());
  ranks.launch();
  ranks.wait();
  const double error = ranks.error_over_tolerance();
  require_right(error, std::string(to_text(collective.kind)).c_str());
  Measurement result = bench.time([&ranks] { ranks.launch(); }, rule, CacheState::warm);
  ranks.wait();
  result.error_over_tolerance = error;
  return result;
}

}  // namespace flopcast
