#pragma once

// Streams of a step's program by number. Private to the files that append ops to it.

#include <cstddef>

#include "models/operator_timing.h"

namespace flopcast {

inline constexpr std::size_t kCompute = index_of(StepStream::compute);
inline constexpr std::size_t kTensor = index_of(StepStream::tensor);
inline constexpr std::size_t kForwardSend = index_of(StepStream::forward_send);
inline constexpr std::size_t kForwardRecv = index_of(StepStream::forward_recv);
inline constexpr std::size_t kBackwardSend = index_of(StepStream::backward_send);
inline constexpr std::size_t kBackwardRecv = index_of(StepStream::backward_recv);
inline constexpr std::size_t kData = index_of(StepStream::data);
inline constexpr std::size_t kReplica = index_of(StepStream::replica);
inline constexpr std::size_t kToHost = index_of(StepStream::to_host);
inline constexpr std::size_t kFromHost = index_of(StepStream::from_host);

}  // namespace flopcast
