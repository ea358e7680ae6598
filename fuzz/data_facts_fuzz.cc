// What ranks tell each other of their data: any bytes give facts or say why not. Facts that were
// accepted are encoded and decoded to the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "perform/stage/dataset_fingerprint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::stage;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto facts = decode_data_facts(kernels::Payload(bytes, bytes + size));
  if (!facts) return 0;
  const kernels::Payload sent = encode(*facts);
  const auto again = decode_data_facts(sent);
  CHECK(again.has_value(), "{}", again.error().text());
  CHECK(encode(*again) == sent, "facts that change on their way");
  return 0;
}
