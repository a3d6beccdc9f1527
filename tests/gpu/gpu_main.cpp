// Runs the cases where there is a GPU. Without one, checks that the reason is given, and skips.

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <iostream>
#include <string>

#include "kernels/device.h"
#include "sim/errors.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in CMakeLists.txt
  try {
    flopcast::devices();
  } catch (const flopcast::DeviceError& error) {
    const std::string reason = error.what();
    std::cout << "no GPU: " << reason << '\n';
    return reason.find("cudaGetDeviceCount: ") == 0 ? kSkipped : 1;
  }
  return Catch::Session().run(argc, argv);
}
