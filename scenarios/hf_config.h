#pragma once

// A Hugging Face config.json as a transformer shape. Each family names its numbers and leaves out
// its defaults in its own way; what the file does not say is what the family's module would do.

#include <span>
#include <string>
#include <string_view>

#include "models/transformer.h"
#include "scenarios/document.h"

namespace flopcast {

/// `origin` stands for the file in messages. Throws InputError on an unknown model_type, a missing
/// size, or a variant whose modules the shape cannot describe. The name is the file's
/// _name_or_path, empty where it has none.
Transformer transformer_from_hf(std::string_view json_text, const std::string& origin);
Transformer transformer_from_hf(const Node& config);

/// Every model_type that is known.
std::span<const std::string_view> hf_model_types();

}  // namespace flopcast
