#pragma once

// Measures a kernel and a collective on one GPU at the same time, and the spread of one thing done
// many times. Only for sources of this folder.

#include "kernels/bench.h"
#include "kernels/collective_bench.h"
#include "kernels/measurement_case.h"

namespace flopcast {

/// The untimed one is put on its stream again and again, so that it runs from before the timed one
/// starts until after its end.
Measurement measure_interference(Bench& bench, Ranks& ranks, const InterferenceCase& both,
                                 const StopRule& rule);

/// `ranks` may be nothing where the case has no collective. 1000 samples, warm, or what the budget
/// allows.
Measurement measure_jitter(Bench& bench, Ranks* ranks, const JitterCase& jitter,
                           const StopRule& rule);

}  // namespace flopcast
