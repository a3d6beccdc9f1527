#pragma once

// Broken invariants of our own: print the place and the reason, then abort. Never for user input.

namespace flopcast::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);
}  // namespace flopcast::detail

#define FLOPCAST_CHECK(condition, why)                                       \
  do {                                                                       \
    if (!(condition)) {                                                      \
      ::flopcast::detail::check_failed(__FILE__, __LINE__, #condition, why); \
    }                                                                        \
  } while (false)
