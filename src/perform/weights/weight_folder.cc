#include "perform/weights/weight_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "perform/state/checkpoint.h"

namespace tombolo::weights {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kConfigMax = int64_t{1} << 20;
constexpr int64_t kIndexMax = int64_t{1} << 28;

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A part of a tensor of theirs, into one of ours. `columns`: of ours.
struct Cut {
  NumberType type;
  const std::byte* bytes;  // of theirs
  int64_t columns;
  int64_t first, row;  // of its outputs, the first and all of theirs
};

// Theirs is [inputs, outputs of all parts], ours [outputs, inputs].
void read_transposed(const Cut& cut, std::span<float> out) {
  const auto inputs = static_cast<size_t>(cut.columns);
  if (inputs == 0) return;
  const size_t outputs = out.size() / inputs, size = size_of(cut.type);
  const auto row = static_cast<size_t>(cut.row);
  std::vector<float> numbers(outputs);
  for (size_t i = 0; i < inputs; ++i) {
    const size_t first = i * row + static_cast<size_t>(cut.first);
    to_floats(cut.type, {cut.bytes + first * size, outputs * size}, numbers);
    for (size_t o = 0; o < outputs; ++o) out[o * inputs + i] = numbers[o];
  }
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> parse_index(std::string_view text,
                                                                     const std::string& name) {
  const Value index = TRY(parse_json(text, name));
  const Value* map = index.find("weight_map");
  const Value::Table* table = map ? map->get<Value::Table>() : nullptr;
  if (!table) return unusable(name + ": weight_map is missing, a table of tensors and files");
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [tensor, file] : *table) {
    const std::string* plain = file.get<std::string>();
    if (!plain || !state::is_plain_file(*plain)) {
      return unusable(fmt::format("{}: weight_map.{}: wanted the name of a file in the same folder",
                                  name, tensor));
    }
    out.emplace_back(tensor, *plain);
  }
  return out;
}

Result<WeightFolder> WeightFolder::open(const std::string& folder) {
  WeightFolder out;
  out.folder_ = folder;
  const std::string config = folder + "/" + kConfigName;
  out.config_ = TRY(parse_config(TRY(read_file(config, kConfigMax)), config));
  const std::string single = folder + "/" + kSingleName, index_path = folder + "/" + kIndexName;
  std::error_code ignored;
  if (fs::exists(single, ignored)) {
    TRY(out.add_file(single));
  } else if (fs::exists(index_path, ignored)) {
    const auto index = TRY(parse_index(TRY(read_file(index_path, kIndexMax)), index_path));
    std::set<std::string> files;
    for (const auto& [tensor, file] : index) files.insert(file);
    for (const std::string& file : files) TRY(out.add_file(folder + "/" + file));
    TRY(out.check_index(index, index_path));
  } else {
    return unusable(
        fmt::format("{}: there is neither {} nor {}", folder, kSingleName, kIndexName),
        "weights as save_pretrained(..., safe_serialization=True) of transformers writes them");
  }
  out.find_prefix();
  return out;
}

Status WeightFolder::add_file(const std::string& path) {
  data::MappedFile file = TRY(data::MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  state::TensorPlaces places =
      TRY(state::find_tensors({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
  files_.push_back(std::move(file));
  for (state::TensorPlace& place : places.tensors) {
    const std::string name = place.name;
    const auto [at, added] = tensors_.try_emplace(name, Found{files_.size() - 1, std::move(place)});
    if (!added) {
      return unusable(fmt::format("{}: tensor \"{}\" is in {} as well", path, name,
                                  files_[at->second.file].path()));
    }
  }
  return {};
}

Status WeightFolder::check_index(const std::vector<std::pair<std::string, std::string>>& index,
                                 const std::string& path) const {
  for (const auto& [tensor, file] : index) {
    const auto found = tensors_.find(tensor);
    if (found != tensors_.end() && fs::path(files_[found->second.file].path()).filename() == file) {
      continue;
    }
    return unusable(fmt::format("{}: tensor \"{}\" is not in {}", path, tensor, file),
                    "the index and the files of one and the same model");
  }
  return {};
}

void WeightFolder::find_prefix() {
  const std::string prefix = decoder_prefix(config_.family);
  has_prefix_ = std::ranges::any_of(
      tensors_, [&](const auto& named) { return named.first.starts_with(prefix); });
}

std::string WeightFolder::name_here(const std::string& name) const {
  const std::string prefix = decoder_prefix(config_.family);
  return has_prefix_ || !name.starts_with(prefix) ? name : name.substr(prefix.size());
}

std::string WeightFolder::where(const Found& found) const {
  return fmt::format("{}: tensor \"{}\"", files_[found.file].path(), found.place.name);
}

Result<const WeightFolder::Found*> WeightFolder::find(const TheirTensor& tensor) const {
  const std::string name = name_here(tensor.name);
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) {
    return unusable(fmt::format("{}: tensor \"{}\" is missing, {} of a {}", folder_, name,
                                text_of(tensor.shape), to_name(config_.family)),
                    "all files of the model that config.json describes");
  }
  const Found& found = at->second;
  if (found.place.shape != tensor.shape) {
    return unusable(fmt::format("{} has shape {}, config.json asks for {}", where(found),
                                text_of(found.place.shape), text_of(tensor.shape)));
  }
  if (!from_name<NumberType>(found.place.dtype)) {
    return unusable(fmt::format("{} has dtype {}", where(found), found.place.dtype),
                    "F32, BF16 or F16");
  }
  return &found;
}

// A tensor that we would leave out belongs to a model that we do not compute.
Status WeightFolder::check_all_known(const std::vector<TheirTensor>& wanted,
                                     const model::Model& job) const {
  std::set<std::string, std::less<>> known;
  for (const TheirTensor& tensor : wanted) known.insert(name_here(tensor.name));
  for (const auto& [name, found] : tensors_) {
    if (known.contains(name) || is_no_weight(config_.family, job, name)) continue;
    return unusable(fmt::format("{} is none of a {} as config.json describes it", where(found),
                                to_name(config_.family)));
  }
  return {};
}

Status WeightFolder::check(const model::Model& job) const {
  TRY(check_same_model(job, config_, folder_ + "/" + kConfigName));
  const std::vector<TheirTensor> wanted = their_tensors(config_.family, config_.model);
  for (const TheirTensor& tensor : wanted) TRY(find(tensor));
  return check_all_known(wanted, job);
}

Result<std::string> WeightFolder::digest() const {
  constexpr size_t kSample = 4096;
  const auto add = [](RunningDigest& sum, const void* at, size_t size) {
    sum.add({static_cast<const char*>(at), size});
  };
  RunningDigest sum;
  for (const TheirTensor& tensor : their_tensors(config_.family, config_.model)) {
    const Found& found = *TRY(find(tensor));
    const data::MappedFile& file = files_[found.file];
    TRY(file.check_length());
    sum.add(tensor.name);
    add(sum, tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    const auto type = from_name<NumberType>(found.place.dtype).value_or(NumberType::kF32);
    const auto size = static_cast<size_t>(state::dtype_bytes(found.place.dtype));
    const size_t count = static_cast<size_t>(found.place.bytes) / size;
    const size_t sample = std::min(count, kSample);
    std::vector<float> numbers(sample);
    for (const size_t from : {size_t{0}, (count - sample) / 2, count - sample}) {
      const size_t begin = static_cast<size_t>(found.place.offset) + from * size;
      to_floats(type, file.bytes().subspan(begin, sample * size), numbers);
      file.release(begin, begin + sample * size);
      add(sum, numbers.data(), sample * sizeof(float));
    }
  }
  return sum.text();
}

Status WeightFolder::read(const std::string& name, const std::vector<int64_t>& shape,
                          std::span<float> out) const {
  const Place place = place_of(config_.family, name);
  TheirTensor theirs{place.name, shape, {}, place.transposed};
  const std::vector<int64_t> parts = outputs_of_parts(place, config_.model);
  const int64_t before = std::accumulate(parts.begin(), parts.begin() + place.part, int64_t{0});
  if (!parts.empty()) theirs.shape[0] = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const int64_t outputs = theirs.shape[0];
  if (place.transposed) std::swap(theirs.shape[0], theirs.shape[1]);
  const Found& found = *TRY(find(theirs));
  const data::MappedFile& file = files_[found.file];
  TRY(file.check_length());
  const auto type = from_name<NumberType>(found.place.dtype).value_or(NumberType::kF32);
  const auto begin = static_cast<size_t>(found.place.offset);
  const auto length = static_cast<size_t>(found.place.bytes);
  const std::byte* bytes = file.bytes().data() + begin;
  file.fetch(begin, begin + length);
  if (place.transposed) {
    read_transposed({type, bytes, shape[1], before, outputs}, out);
  } else {
    // Parts lie one after the other.
    const size_t row = length / static_cast<size_t>(outputs);
    to_floats(type,
              {bytes + static_cast<size_t>(before) * row, static_cast<size_t>(shape[0]) * row},
              out);
  }
  file.release(begin, begin + length);
  return {};
}

}  // namespace tombolo::weights
