#pragma once

// A kernel that does nothing: what is left is the launch. Only for sources of this folder.

#include <driver_types.h>

namespace flopcast {

void launch_nothing(cudaStream_t stream);

}  // namespace flopcast
