// What a config.json says that matters for its weights, and writing one. Pure.
//
// model::parse_config_json reads shapes, for counting; this reads what changes the computed
// numbers: an activation, a scaling of positions, a window of attention. What we do not
// compute is refused, never ignored.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "perform/weights/family.h"
#include "perform/weights/number_type.h"

namespace tombolo::weights {

struct Config {
  Value value;  // as the file says it
  Family family = Family::kLlama;
  model::Model model;
};

// `file` stands in messages. Unusable, by name, for a family whose weights cannot be read and for
// settings that change what is computed and that we do not compute.
Result<Config> parse_config(std::string_view text, const std::string& file);

// Unusable, naming the first key that differs and both values, where a job's model is another one.
// Names and lengths of samples may differ, as far as the file's model can tell positions apart.
// `file` is that of the config.
Status check_same_model(const model::Model& job, const Config& config, const std::string& file);

// A config.json for a model of this family; transformers then computes what we compute.
std::string config_text(Family family, const model::Model& model, NumberType type);

// The text of a config that was read, with another number type.
std::string config_text(const Config& config, NumberType type);

}  // namespace tombolo::weights
