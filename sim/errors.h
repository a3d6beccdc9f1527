#pragma once

// The mistakes that reach a user. Each is thrown where it is found and caught once, in main.

#include <stdexcept>
#include <string>

namespace flopcast {

/// The user's input is wrong: exit code 2. The text names file, line, key, what was read, what was
/// expected and the nearest valid name.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input is right, but asks for what is not simulated yet, or for what no shipped data
/// describes. To a user it is an InputError; a table of measured runs counts it apart.
class Unsupported : public InputError {
 public:
  using InputError::InputError;
};

/// A file cannot be read or written: exit code 3.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A GPU or a driver call failed: exit code 3.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace flopcast
