#include "models/activation_offload.h"
#include "models/stage_builder.h"

// Activations of the first layers to the host and back: activation_offload.h says when.

namespace flopcast {
namespace {

OffloadWindow window_of(const ModelChunk& chunk, const Training& training) {
  return {.layers = static_cast<std::size_t>(chunk.content.layers),
          .offloaded = static_cast<std::size_t>(training.offloaded_layers)};
}

}  // namespace

void StageBuilder::copy_activations(StepGroup slot, std::int64_t size, std::string_view name) {
  const std::size_t stream = slot == StepGroup::to_host ? kToHost : kFromHost;
  const TransferId transfer =
      tables_.copy(bytes(static_cast<double>(size)), group(slot), StepCategory::activation);
  program_.order(kCompute, stream);
  program_.collective(stream, slot_of(slot), transfer, id_of(StepCategory::activation),
                      tables_.label(name));
}

void StageBuilder::await_copied_out(const ModelChunk& chunk, std::size_t entered) {
  const auto gone = window_of(chunk, training()).gone_before(entered);
  if (!gone) return;
  program_.wait(kCompute, copied_[*gone]);
  free(MemoryPool::activations, chunk.layers[*gone].kept.saved);
}

void StageBuilder::copy_out(const ModelChunk& chunk, std::size_t left) {
  if (!window_of(chunk, training()).holds(left)) return;
  copy_activations(StepGroup::to_host, chunk.layers[left].kept.saved, "copy activations to host");
  copied_.resize(static_cast<std::size_t>(training().offloaded_layers));
  copied_[left] = program_.record(kToHost);
}

/// What is copied back later is asked for before the layer waits for its own.
void StageBuilder::copy_back(const ModelChunk& chunk, std::size_t entered) {
  const OffloadWindow window = window_of(chunk, training());
  if (const auto next = window.back_from(entered)) {
    const std::int64_t size = chunk.layers[*next].kept.saved;
    hold(MemoryPool::activations, size);
    copy_activations(StepGroup::from_host, size, "copy activations from host");
    copied_[*next] = program_.record(kFromHost);
  }
  if (window.holds(entered)) program_.wait(kCompute, copied_[entered]);
}

HostBytes StageBuilder::host_bytes() const {
  HostBytes host;
  if (training().offload && !training().offload->to_drives) {
    const Bytes each = training().optimizer_state() + element_size(training().gradient_dtype);
    host.optimizer = static_cast<std::int64_t>((offloaded_elements() * each).value);
  }
  for (std::int64_t layer = 0; layer < training().offloaded_layers; ++layer) {
    host.activations += chunks_.front().layers[static_cast<std::size_t>(layer)].kept.saved;
  }
  return host;
}

}  // namespace flopcast
