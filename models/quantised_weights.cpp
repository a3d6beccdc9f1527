#include "models/quantised_weights.h"

#include "models/operand_casts.h"

namespace flopcast {
namespace {

bool gathers_in_8_bits(const Training& training) {
  const bool by_recipe =
      training.precision == DataType::fp8 || training.precision == DataType::mxfp8;
  return training.fp8_param_gather.value_or(training.framework.fp8_param_gather && by_recipe);
}

/// One orientation.
Bytes copy_size(DataType type) {
  return type == DataType::fp8_blockwise ? element_size(type) : operand_size(type);
}

double orientations(DataType type, const Profile& profile) {
  return scaled_block(type) == 1 && knows_scaled_formats(profile) ? 1 : 2;
}

}  // namespace

WeightSizes weight_sizes(const Training& training, const Profile& profile) {
  const Bytes parameter = element_size(training.parameter_dtype);
  const DataType type = training.precision;
  const bool only_copies = gathers_in_8_bits(training);
  const bool copies = only_copies || training.framework.keeps_cast_weights;
  if (element_size(type) >= parameter || unquantised_type(training) == type || !copies) {
    return {.plain = parameter, .kept = parameter, .gathered = parameter, .cast = {}};
  }
  const Bytes one = copy_size(type);
  const Bytes all = orientations(type, profile) * one;
  WeightSizes sizes{
      .plain = parameter, .kept = all, .gathered = parameter, .cast = parameter + all};
  if (!only_copies) {
    sizes.kept = parameter + all;
  } else if (type != DataType::mxfp8) {
    sizes.gathered = one;
    sizes.cast = 2.0 * (all - one);  // read and written along columns
  }
  return sizes;
}

WeightSizes frozen_weight_sizes(const Training& training, const Profile& profile) {
  const auto& stored = training.adapters->frozen_dtype;
  if (!stored) return weight_sizes(training, profile);
  const Bytes size = element_size(*stored);
  return {.plain = size, .kept = size, .gathered = size, .cast = {}};
}

}  // namespace flopcast
