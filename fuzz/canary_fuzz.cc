// Fails on purpose, on an input that is not in its corpus: whoever runs the fuzzers expects that,
// and so proves that inputs are mutated and that failures are seen.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 3 && data[0] == 'b' && data[1] == 'u' && data[2] == 'g') std::abort();
  return 0;
}
