#pragma once

// Kernel times out of a trace of PyTorch's profiler (Chrome JSON, record_shapes=True): each kernel
// carries the "External id" of the operator that launched it, and that operator its "Input Dims".
// Internal to read_kernel_samples.

#include <string_view>

#include "scenarios/document.h"
#include "scenarios/sample_rows.h"

namespace flopcast {

/// Whether a text begins as such a trace does.
bool is_profiler_trace(std::string_view text);

/// Adds a row for each operator of known shape: mm, addmm and bmm, and the flash attention of
/// torch.nn.functional, forward and backward. Kernels of one call add up. Throws InputError where
/// no operator has a shape.
void read_profiler_trace(const Document& trace, SampleTable& into);

}  // namespace flopcast
