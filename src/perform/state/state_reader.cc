#include "perform/state/state_reader.h"

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"

namespace tombolo::state {

StateReader::StateReader(const FoundCheckpoint& checkpoint, FetchPart fetch)
    : checkpoint_(checkpoint), fetch_(std::move(fetch)) {
  for (const Shard& shard : checkpoint_.manifest.shards) {
    for (const TensorPlace& place : shard.tensors) places_.try_emplace(place.name, &shard, &place);
  }
}

// A file of another size counts as missing if another host may have the right one.
bool StateReader::is_here(const Shard& shard) {
  const auto known = here_.find(&shard);
  if (known != here_.end()) return known->second;
  std::error_code ec;
  const auto size = std::filesystem::file_size(checkpoint_.folder + "/" + shard.file, ec);
  const bool here = !ec && static_cast<int64_t>(size) == shard.bytes;
  here_[&shard] = here;
  return here;
}

Result<kernels::Payload> StateReader::bytes_of(const Shard& shard, const TensorPlace& place) {
  if (fetch_ && !is_here(shard)) {
    kernels::Payload fetched = TRY(fetch_(shard, place.offset, place.bytes));
    bytes_fetched_ += static_cast<int64_t>(fetched.size());
    return fetched;
  }
  auto read = bytes_here(shard, place);
  damaged_ = !read;
  return read;
}

Result<kernels::Payload> StateReader::bytes_here(const Shard& shard, const TensorPlace& place) {
  const std::string path = checkpoint_.folder + "/" + shard.file;
  TRY(check_shard_size(path, shard));
  kernels::Payload out(static_cast<size_t>(place.bytes));
  TRY(read_part(path, place.offset, out));
  bytes_read_ += place.bytes;
  return out;
}

Result<kernels::NamedTensor> StateReader::read(const std::string& name) {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return unusable(fmt::format("the checkpoint {} lacks the tensor {}", checkpoint_.folder, name),
                    "a checkpoint of the same model, complete with every rank's part");
  }
  const auto& [shard, place] = found->second;
  kernels::Payload payload = TRY(bytes_of(*shard, *place));
  kernels::NamedTensor tensor{place->name, place->dtype, place->shape, std::move(payload)};
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                               tensor.bytes.size());
  if (digest(bytes) == place->digest) return tensor;
  damaged_ = true;
  return unusable(
      fmt::format("{}/{}: the shard is damaged: the bytes of the tensor {} are not those that were "
                  "written",
                  checkpoint_.folder, shard->file, name),
      kOlderCheckpoint);
}

Result<std::vector<kernels::NamedTensor>> StateReader::read_all() {
  std::vector<kernels::NamedTensor> out;
  for (const auto& [name, place] : places_) out.push_back(TRY(read(name)));
  return out;
}

}  // namespace tombolo::state
