#include "perform/weights/export_weights.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "perform/state/state_reader.h"
#include "perform/weights/weight_folder.h"

namespace tombolo::weights {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kManifestMax = int64_t{1} << 30;

Result<state::FoundCheckpoint> find_checkpoint(const std::string& folder) {
  const std::string manifest = folder + "/" + state::kManifestName;
  std::error_code ignored;
  if (fs::exists(manifest, ignored)) {
    const std::string text = TRY(read_file(manifest, kManifestMax));
    return state::FoundCheckpoint{folder, TRY(state::parse_manifest(text, manifest))};
  }
  auto newest = TRY(state::latest_checkpoint(folder));
  if (newest) return std::move(*newest);
  return unusable(fmt::format("{}: there is no checkpoint", folder),
                  "the [checkpoint] directory of the job, or a step's folder in it");
}

Result<Config> read_config(const std::string& folder) {
  const std::string path = folder + "/" + kConfigName;
  return parse_config(TRY(read_file(path, int64_t{1} << 20)), path);
}

int64_t numbers_in(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// As many tensors as fit into each file, at least one.
std::vector<std::vector<TheirTensor>> split(std::vector<TheirTensor> tensors, NumberType type,
                                            int64_t file_bytes) {
  std::vector<std::vector<TheirTensor>> files;
  int64_t room = 0;
  for (TheirTensor& tensor : tensors) {
    const int64_t bytes = numbers_in(tensor.shape) * static_cast<int64_t>(size_of(type));
    if (files.empty() || bytes > room) {
      files.emplace_back();
      room = file_bytes;
    }
    room -= bytes;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

std::string file_name(size_t file, size_t files) {
  return files == 1 ? kSingleName
                    : fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files);
}

// A tensor of theirs from the checkpoint's.
class Assembler {
 public:
  Assembler(const state::FoundCheckpoint& found, NumberType type) : reader_(found), type_(type) {}

  // What it returns is overwritten by the next call.
  Result<std::span<const std::byte>> assemble(const TheirTensor& tensor) {
    numbers_.resize(static_cast<size_t>(numbers_in(tensor.shape)));
    size_t before = 0;  // outputs of the parts that are there
    for (const Tensor& part : tensor.parts) {
      TRY(add(tensor, part, before));
      before += static_cast<size_t>(part.shape[0]);
    }
    bytes_.resize(numbers_.size() * size_of(type_));
    from_floats(type_, numbers_, bytes_);
    return std::span<const std::byte>(bytes_);
  }

 private:
  Status add(const TheirTensor& tensor, const Tensor& ours, size_t before) {
    const kernels::NamedTensor read = TRY(reader_.read(ours.name));
    const auto each = static_cast<size_t>(numbers_in(ours.shape));
    const auto outputs = static_cast<size_t>(ours.shape[0]);
    if (read.dtype != "F32" || read.shape != ours.shape || read.bytes.size() != 4 * each) {
      return unusable(fmt::format("the checkpoint's {} is {} [{}], its model has F32 [{}]",
                                  ours.name, read.dtype, fmt::join(read.shape, ", "),
                                  fmt::join(ours.shape, ", ")));
    }
    if (!tensor.transposed) {
      const size_t first = before * (each / outputs);
      to_floats(NumberType::kF32, read.bytes, std::span(numbers_).subspan(first, each));
      return {};
    }
    std::vector<float> own(each);
    to_floats(NumberType::kF32, read.bytes, own);
    const auto inputs = static_cast<size_t>(ours.shape[1]);
    for (size_t i = 0; i < inputs; ++i) {
      float* row = numbers_.data() + i * static_cast<size_t>(tensor.shape[1]) + before;
      for (size_t o = 0; o < outputs; ++o) row[o] = own[o * inputs + i];
    }
    return {};
  }

  state::StateReader reader_;
  NumberType type_;
  std::vector<float> numbers_;
  std::vector<std::byte> bytes_;
};

Result<Family> choose_family(const ExportOptions& options, const std::optional<Config>& like,
                             const model::Model& model) {
  if (like && options.family && *options.family != like->family) {
    return unusable(fmt::format("--family {}: {} describes a {}", to_name(*options.family),
                                options.like, to_name(like->family)),
                    "one of the two");
  }
  auto family = options.family;
  if (like) family = like->family;
  if (!family) family = family_of(model);
  if (!family) {
    return unusable(fmt::format("the checkpoint's model is none of {}: as a llama {}",
                                family_names(), mismatch(Family::kLlama, model)));
  }
  const std::string why = mismatch(*family, model);
  if (why.empty()) return *family;
  return unusable(fmt::format("the checkpoint's model is no {}: {}", to_name(*family), why),
                  "--family with another of " + family_names());
}

Status check_empty(const std::string& out) {
  std::error_code ignored;
  for (const char* name : {kSingleName, kIndexName}) {
    if (fs::exists(out + "/" + name, ignored)) {
      return unusable(fmt::format("{}/{}: there are weights already", out, name),
                      "another folder as --out");
    }
  }
  return {};
}

Status write_files(const ExportOptions& options, const std::vector<std::vector<TheirTensor>>& files,
                   Assembler& assembler, ExportSummary& summary) {
  Value::Table places;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = file_name(i, files.size()), path = options.out + "/" + name;
    std::vector<state::TensorShape> shapes;
    for (const TheirTensor& tensor : files[i]) {
      shapes.push_back({tensor.name, std::string(to_name(options.type)), tensor.shape});
      places.emplace_back(tensor.name, name);
      const int64_t numbers = numbers_in(tensor.shape);
      summary.parameters += numbers;
      summary.bytes += numbers * static_cast<int64_t>(size_of(options.type));
      ++summary.tensors;
    }
    // transformers refuses files that do not say so.
    auto writer =
        TRY(state::SafetensorsWriter::create(path, std::move(shapes), {{"format", "pt"}}));
    for (const TheirTensor& tensor : files[i]) TRY(writer.add(TRY(assembler.assemble(tensor))));
    TRY(writer.finish());
    summary.files.push_back(path);
  }
  if (files.size() == 1) return {};
  const std::string path = options.out + "/" + kIndexName;
  const Value index = Value::Table{{"metadata", Value::Table{{"total_size", summary.bytes}}},
                                   {"weight_map", std::move(places)}};
  TRY(write_file(path, to_json(index) + "\n"));
  summary.files.push_back(path);
  return {};
}

}  // namespace

Result<ExportSummary> export_weights(const ExportOptions& options) {
  const state::FoundCheckpoint found = TRY(find_checkpoint(options.checkpoint));
  const model::Model& model = found.manifest.model;
  std::optional<Config> like;
  if (!options.like.empty()) {
    like = TRY(read_config(options.like));
    TRY(during(check_same_model(model, *like, options.like + "/" + kConfigName),
               "comparing the checkpoint's model with --like"));
  }
  ExportSummary summary;
  summary.step = found.manifest.step;
  summary.family = TRY(choose_family(options, like, model));
  TRY(make_directories(options.out));
  TRY(check_empty(options.out));
  const auto files = split(their_tensors(summary.family, model), options.type, options.file_bytes);
  Assembler assembler(found, options.type);
  TRY(write_files(options, files, assembler, summary));
  const std::string config = options.out + "/" + kConfigName;
  TRY(write_file(config, like ? config_text(*like, options.type)
                              : config_text(summary.family, model, options.type)));
  summary.files.push_back(config);
  return summary;
}

}  // namespace tombolo::weights
