#pragma once

// Finds the place of a value in JSON text by scanning it again. Only for error messages: the text
// may be malformed, and nothing is decoded.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace flopcast {

/// A piece of JSON text. `kind` is one of {}[],: or '"' for a string, 'v' for anything else, and 0
/// at the end of the text.
struct Token {
  char kind = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The first token at or after `offset`, past blanks and comments.
Token next_token(std::string_view text, std::size_t offset);

/// The token in which byte `offset` lies, or the first after it, and the one before that.
struct TokenPair {
  Token before;
  Token token;
};
TokenPair tokens_around(std::string_view text, std::size_t offset);

struct ValuePlace {
  std::size_t key = 0;  // of the last step's key; equal to `value` in an array
  std::size_t value = 0;
};

/// Follows steps from the root: the n-th member of an object, the n-th element of an array. The end
/// of the text where there are not so many.
ValuePlace place_of(std::string_view text, std::span<const std::size_t> steps);

/// Where nesting first gets deeper than `limit`.
std::size_t place_of_depth(std::string_view text, std::size_t limit);

/// "31:17", both from 1; columns count characters, not bytes.
std::string line_and_column(std::string_view text, std::size_t offset);

}  // namespace flopcast
