#pragma once

// The NCCL that this program uses: part of the environment that every collective's sample carries.

#include <string>

namespace flopcast {

/// "2.27.7". Throws DeviceError where NCCL was not built in or does not answer.
std::string nccl_version();

}  // namespace flopcast
