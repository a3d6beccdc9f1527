#include "kernels/launch_kernel.h"

#include "kernels/device_code.h"

namespace flopcast {
namespace {

__global__ void nothing_kernel() {}

}  // namespace

void launch_nothing(cudaStream_t stream) { launch(stream, nothing_kernel, 1); }

}  // namespace flopcast
