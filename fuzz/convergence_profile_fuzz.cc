// Convergence profiles: arbitrary text is refused with its place, or is a record that reads back equal.
// Of short ones a profile is made, whose beliefs are numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "steer/tune/convergence_profile.h"

using namespace tombolo;
using namespace tombolo::tune;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = parse_probes(text, "fuzz.json");
  if (!record) {
    CHECK(record.error().text().find("fuzz.json") != std::string::npos,
          "a message without its file: {}", record.error().text());
    return 0;
  }
  const std::string written = to_json(write_fields(*record));
  const auto again = parse_probes(written, "again.json");
  CHECK(again && to_json(write_fields(*again)) == written, "what was written does not read");
  // A fit takes as long as thousands of refusals.
  constexpr size_t kFew = 6;
  if (record->probes.size() > kFew) return 0;
  const auto profile = ConvergenceProfile::of(*record);
  if (!profile) return 0;
  const Belief belief = profile->log_samples_factor(0.5, real(record->bounds.batch_max));
  CHECK(std::isfinite(belief.mean) && belief.variance >= 0, "a belief of {} and {}", belief.mean,
        belief.variance);
  return 0;
}
