#pragma once

// What a whole scenario costs: from what was read to the answer.

#include <string>

namespace flopcast::bench {

/// The shipped example of that name; `every_rank` as --fold off has it. Prints the median of five
/// runs (every rank: of one), and what the first adds to the memory in use. Reading is no part.
void measure_scenario(const std::string& name, bool every_rank);

/// Most memory in use since the last reset, which gives back what is free.
double resident_peak_bytes();
double reset_resident_peak();

/// Processor time of this process, in seconds.
double processor_seconds();

}  // namespace flopcast::bench
