#include "sim/check.h"

#include <cstdio>
#include <cstdlib>

namespace flopcast::detail {

void check_failed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, why);
  std::abort();
}

}  // namespace flopcast::detail
