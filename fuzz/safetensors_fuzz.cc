// The safetensors reader: any bytes give tensors whose sizes add up, or a message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "perform/state/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::state;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file = parse_safetensors(bytes, "input");
  if (!file) {
    CHECK(file.error().message.starts_with("input"), "{}", file.error().message);
    return 0;
  }
  size_t sum = 0;
  for (const kernels::NamedTensor& tensor : file->tensors) {
    int64_t wanted = dtype_bytes(tensor.dtype);
    for (const int64_t length : tensor.shape) wanted *= length;
    CHECK(wanted == static_cast<int64_t>(tensor.bytes.size()), "{}: {} bytes", tensor.name, wanted);
    sum += tensor.bytes.size();
  }
  CHECK(sum + 8 <= size, "{} bytes of tensors out of a file of {}", sum, size);
  return 0;
}
