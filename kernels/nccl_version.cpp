#include "kernels/nccl_version.h"

#include <fmt/core.h>

#include "sim/errors.h"

#ifdef FLOPCAST_HAS_NCCL
#include <nccl.h>
#endif

namespace flopcast {

std::string nccl_version() {
#ifdef FLOPCAST_HAS_NCCL
  int code = 0;
  if (const ncclResult_t result = ncclGetVersion(&code); result != ncclSuccess) {
    throw DeviceError(fmt::format("ncclGetVersion: {}", ncclGetErrorString(result)));
  }
  // Since 2.9 the code is major * 10000 + minor * 100 + patch (NCCL_VERSION in nccl.h).
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
#else
  throw DeviceError("ncclGetVersion: this build has no NCCL");
#endif
}

}  // namespace flopcast
