// What --vary says: any bytes give an axis or a message; its path reaches into a job, or a message
// says why not, and values lie in the order of the grid.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/toml.h"
#include "decide/sweep/sweep_axis.h"
#include "decide/sweep/sweep_path.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto axis = sweep::parse_sweep_axis(text);
  CHECK(axis || !axis.error().message.empty(), "refused without a word");
  if (!axis || axis->values.size() > 1000) return 0;  // time, not truth
  const auto grid = sweep::SweepGrid::make({*axis});
  CHECK(grid && grid->size() == static_cast<int64_t>(axis->values.size()), "not a grid");
  const auto path = sweep::SweepPath::parse(axis->path);
  CHECK(path || !path.error().message.empty(), "refused without a word");
  if (!path) return 0;
  static const Value job = *parse_toml(
      "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"a100-80g\"\n[[cluster.datacenter]]\n"
      "name = \"b\"\n[[cluster.wan]]\nbetween = [\"a\", \"b\"]\n[training]\nglobal_batch = 1\n",
      "job.toml");
  for (int64_t i = 0; i < grid->size(); ++i) {
    Value changed = job;
    const auto added = path->put(changed, grid->value(i, 0));
    CHECK(added || !added.error().message.empty(), "refused without a word");
    const Value once = changed;
    // What was put there is there: putting it again adds nothing and changes nothing, unless the
    // entry was renamed, or it is no number (which differs from itself).
    const auto again = path->put(changed, grid->value(i, 0));
    if (added && again && once == once) CHECK(*again == 0 && changed == once, "not there");
    (void)sweep::sweep_text(grid->value(i, 0));
    (void)sweep::sweep_number(grid->value(i, 0));
  }
  return 0;
}
