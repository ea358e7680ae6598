// The fields of a config.json, taken one by one; those that no reader took are named at the end.
//
// Readers of the families (config_families.cc, config_experts.cc) ask for the fields that they
// know. The first problem is kept, and reading continues with harmless values, so that readers need
// no error handling. Messages carry the file, the key and the value.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spec/model/model.h"

namespace tombolo::model::detail {

class Config {
 public:
  Config(const Value::Table& table, std::string file) : table_(table), file_(std::move(file)) {}

  // The value, or null where it is left out or null.
  const Value* take(std::string_view key);
  bool has(std::string_view key) { return take(key) != nullptr; }
  bool is_null(std::string_view key);

  // Between 1, or `min`, and max; refused otherwise.
  std::optional<int64_t> integer(std::string_view key, int64_t max, int64_t min = 1);
  int64_t needed(std::string_view key, int64_t max);
  // One value under several names, of which the first is the usual one; two of them must agree.
  std::optional<int64_t> integer_of(std::initializer_list<const char*> keys, int64_t max);
  double number(std::string_view key, double otherwise);
  bool flag(std::string_view key, bool otherwise);
  std::string text(std::string_view key);

  void missing(std::string_view key);
  void refuse(std::string_view key, std::string_view why, std::string hint = {});
  void note(std::string sentence) { notes_.push_back(file_ + ": " + std::move(sentence)); }
  const std::optional<Error>& error() const { return error_; }
  const std::string& file() const { return file_; }

  // Takes over the problem and the notes of a table within this one.
  void absorb(Config inner);
  // The notes, and one for all fields that no reader took.
  std::vector<std::string> finish();

 private:
  void complain(std::string message, std::string hint = {});

  const Value::Table& table_;
  std::string file_;
  std::set<std::string> taken_;
  std::vector<std::string> notes_;
  std::optional<Error> error_;
};

// The same upper limits as describe(Model&): they keep products from overflowing.
constexpr int64_t kLayersMax = 100'000, kHeadsMax = 100'000, kWidthMax = 1'000'000;
constexpr int64_t kFfnMax = 10'000'000, kCountMax = 100'000'000;

// Each family by its reader; `family` is the model_type.
Model read_gpt2(Config& config);
Model read_gpt_neox(Config& config);
Model read_phi(Config& config);
Model read_mpt(Config& config);
Model read_llama_like(Config& config, const std::string& family);

// What a file of a llama-like family says of experts and of latent or linear attention, into `m`,
// whose other fields are read. A dense family that speaks of experts is refused.
void read_experts(Config& config, const std::string& family, Model& m);
void read_latent_attention(Config& config, const std::string& family, Model& m);
void read_linear_attention(Config& config, const std::string& family, Model& m);

}  // namespace tombolo::model::detail
