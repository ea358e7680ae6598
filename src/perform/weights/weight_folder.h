// A folder with the weights of a model, as Hugging Face's transformers writes it:
//
//   config.json
//   model.safetensors, or model.safetensors.index.json and the files that it names
//
// Files are mapped, not read: a rank that asks for the tensors of its stage has one of them in
// memory at a time, however large the model is.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perform/data/mapped_file.h"
#include "perform/state/safetensors.h"
#include "perform/weights/config_text.h"

namespace tombolo::weights {

inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

// The file of each tensor, as an index says. Pure; `name` stands in messages. Unusable where a file
// is not a plain name.
Result<std::vector<std::pair<std::string, std::string>>> parse_index(std::string_view text,
                                                                     const std::string& name);

class WeightFolder {
 public:
  // Reads config.json and the headers. Unusable, by file, where one is missing or damaged, where an
  // index and its files do not fit, and for what parse_config refuses.
  static Result<WeightFolder> open(const std::string& folder);

  const Config& config() const { return config_; }

  // Whether a job may begin with these weights: its model is the one of config.json, every tensor
  // is there in its shape and in a type that we read, and there is none that we would leave out.
  // Unusable, by the first that is not. Reads no weights.
  Status check(const model::Model& job) const;

  // Equal if the weights are equal as numbers: however they are spread over files, and in any type.
  // Of a large tensor only the beginning, middle and end are read, 4,096 numbers each, as training
  // changes all of it. Unusable as check() is. Cost: a few pages of each tensor.
  Result<std::string> digest() const;

  // Fills `out` with one of tensors_of(), which has this shape. Cost: the tensor's pages, which are
  // released afterwards.
  Status read(const std::string& name, const std::vector<int64_t>& shape,
              std::span<float> out) const;

 private:
  struct Found {
    size_t file = 0;  // of files_
    state::TensorPlace place;
  };

  Status add_file(const std::string& path);
  Status check_index(const std::vector<std::pair<std::string, std::string>>& index,
                     const std::string& path) const;
  void find_prefix();
  // Unusable where there is none, or it has another shape or type.
  Result<const Found*> find(const TheirTensor& tensor) const;
  Status check_all_known(const std::vector<TheirTensor>& wanted, const model::Model& job) const;
  std::string name_here(const std::string& name) const;
  std::string where(const Found& found) const;

  std::string folder_;
  Config config_;
  std::vector<data::MappedFile> files_;
  std::map<std::string, Found, std::less<>> tensors_;
  bool has_prefix_ = true;  // names begin with decoder_prefix()
};

}  // namespace tombolo::weights
