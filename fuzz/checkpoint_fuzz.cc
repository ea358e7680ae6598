// Manifests of checkpoints: any bytes give a manifest that names files of its own folder, and
// tensors within them, or a message. What was accepted is written and read as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "perform/state/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto manifest = state::parse_manifest(bytes, "input");
  if (!manifest) {
    CHECK(!manifest.error().message.empty(), "refused without a word");
    return 0;
  }
  CHECK(manifest->step >= 1, "step {}", manifest->step);
  for (const state::Shard& shard : manifest->shards) {
    CHECK(state::is_plain_file(shard.file), "a shard called {}", shard.file);
    for (const state::TensorPlace& place : shard.tensors) {
      CHECK(place.offset >= 0 && place.bytes >= 0, "{}: {} bytes at {}", place.name, place.bytes,
            place.offset);
      CHECK(place.bytes <= shard.bytes && place.offset <= shard.bytes - place.bytes,
            "{} lies outside of {}", place.name, shard.file);
    }
  }
  const std::string text = state::manifest_text(*manifest);
  const auto again = state::parse_manifest(text, "again");
  CHECK(again && *again == *manifest, "changed on the way through {}", text);
  return 0;
}
