#include <optional>

#include "models/stage_builder.h"

// The optimizer on the node's processors, for the part of the parameters whose states are there.
//
//   to host    gradients of the part, in the type in which they were reduced
//   host       Adam, bound by the memory of the host: states read and written, gradient read,
//              parameter written: 24 + 4 + 2 bytes with fp32 moments and gradients
//   from host  parameters, in their own type
//   storage    states from the drives before a piece's step, back to them after it
//
// It begins when the norm of all gradients is known, as clipping needs it, and beside the GPU's own
// part of the step; parameters are gathered after both. In pieces, each stream works on a piece of
// its own, so that the slowest decides; in one piece everything follows in turn. Ranks of a node
// share the links to their host, its memory and its drives. Sources: Megatron-LM d98e8a64,
// optimizer/cpu_offloading/hybrid_optimizer.py; ZeRO-Offload, arXiv 2101.06840, section 4 (which
// sends gradients already beside the backward pass: not modelled).

namespace flopcast {
namespace {

constexpr std::size_t kHost = index_of(StepStream::host);
constexpr std::size_t kStorage = index_of(StepStream::storage);
constexpr int kPieces = 16;  // assumed: tensors are many, so that the ends are short

}  // namespace

void StageBuilder::start_on_host() {
  const int pieces = training().offload->overlap ? kPieces : 1;
  const double elements = offloaded_elements() / pieces;
  const Bytes gradient = element_size(training().gradient_dtype);
  const Bytes parameter = element_size(training().parameter_dtype);
  const Bytes state = training().optimizer_state();
  const auto copy = [&](std::size_t stream, StepGroup slot, Bytes per_element,
                        std::string_view name) {
    const TransferId transfer =
        tables_.copy(elements * per_element, group(slot), StepCategory::offload);
    program_.collective(stream, slot_of(slot), transfer, id_of(StepCategory::offload),
                        tables_.label(name));
  };
  std::optional<EventId> read;  // states of the piece that comes next
  const auto read_states = [&] {
    copy(kStorage, StepGroup::storage, state, "read optimizer states");
    read = program_.record(kStorage);
  };
  const bool drives = training().offload->to_drives;
  program_.order(kCompute, kToHost);
  if (drives) {
    program_.order(kCompute, kStorage);
    read_states();
  }
  for (int piece = 0; piece < pieces; ++piece) {
    copy(kToHost, StepGroup::to_host, gradient, "copy gradients to host");
    program_.order(kToHost, kHost);
    if (drives) {
      program_.wait(kHost, *read);
      if (piece + 1 < pieces) read_states();
    }
    copy(kHost, StepGroup::host_memory, 2.0 * state + gradient + parameter, "optimizer on host");
    program_.order(kHost, kFromHost);
    copy(kFromHost, StepGroup::from_host, parameter, "copy parameters from host");
    if (!drives) continue;
    program_.order(kHost, kStorage);
    copy(kStorage, StepGroup::storage, state, "write optimizer states");
  }
}

void StageBuilder::await_host() {
  program_.order(kFromHost, kCompute);
  if (training().offload->to_drives) program_.order(kStorage, kCompute);
}

}  // namespace flopcast
