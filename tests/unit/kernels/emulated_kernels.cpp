// The kernels of kernels/*.cu as plain C++, in one translation unit.

#define FLOPCAST_EMULATE_DEVICE
#include <cmath>

#include "kernels/device_code.h"
#include "kernels/elementwise_kernels.cu"
#include "kernels/fill_kernels.cu"
#include "kernels/norm_kernels.cu"
#include "kernels/reduction_kernels.cu"
#include "kernels/softmax_kernels.cu"
#include "kernels/stream_kernels.cu"
