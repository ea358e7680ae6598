#include "perform/weights/text_ends.h"

#include <algorithm>

namespace tombolo::weights {
namespace {

Status add_ids(const Value& file, const char* key, int64_t vocabulary, std::vector<int64_t>& out) {
  const Value* found = file.find(key);
  if (!found || found->is_null()) return {};
  const Value::Array single = {*found};
  const auto* list = found->get<Value::Array>();
  for (const Value& each : list ? *list : single) {
    const int64_t* id = each.get<int64_t>();
    if (!id || *id < 0 || *id >= vocabulary) {
      return unusable(fmt::format("{}: wanted ids of tokens below {}", key, vocabulary),
                      "the config.json and generation_config.json of one model");
    }
    if (std::ranges::find(out, *id) == out.end()) out.push_back(*id);
  }
  return {};
}

}  // namespace

Result<TextEnds> text_ends(const Config& config, const Value& generation) {
  const int64_t vocabulary = config.model.vocabulary;
  TextEnds out;
  const Family family = config.family;
  const bool gemma = family == Family::kGemma || family == Family::kGemma2;
  if (gemma || family == Family::kLlama || family == Family::kMistral) {
    TRY(add_ids(config.value, "bos_token_id", vocabulary, out.begin));
  }
  TRY(add_ids(config.value, "eos_token_id", vocabulary, out.end));
  TRY(add_ids(generation, "eos_token_id", vocabulary, out.end));
  return out;
}

}  // namespace tombolo::weights
