// measure() of a build that found no CUDA toolkit.

#include "kernels/measure.h"
#include "sim/errors.h"

namespace flopcast {

MeasureSummary measure(const MeasureOptions&) {
  throw DeviceError(
      "this build cannot measure a GPU: it has no CUDA (build it with -DFLOPCAST_CUDA=ON where "
      "nvcc is found)");
}

}  // namespace flopcast
