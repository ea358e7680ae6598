#include "spec/plan/prefill_settings.h"

#include "base/field_catalog.h"

namespace tombolo::plan {
namespace {

struct PrefillSection {
  Value model;
  Prefill limits;
};

template <class Archive>
void describe(Archive& a, PrefillSection& section) {
  a.required("model", section.model,
             {"that answers; its sequence is the longest prompt",
              "name of a preset, or table as [model]"});
  describe_limits(a, section.limits);
}

}  // namespace

Result<Prefill> read_prefill(const Value& table, const std::string& file) {
  PrefillSection section = TRY(read_fields<PrefillSection>(table, file, "prefill"));
  if (const std::string* name = section.model.get<std::string>()) {
    section.limits.model =
        TRY(during(model::preset(*name),
                   fmt::format("reading {}:{}: prefill.model", file, section.model.line)));
  } else if (section.model.get<Value::Table>()) {
    section.limits.model = TRY(model::read_model(section.model, file, "prefill.model")).model;
  } else {
    return unusable(
        fmt::format("{}:{}: prefill.model: wanted a text or a table", file, section.model.line),
        "model = \"llama3-8b\", or [prefill.model] as [model] is");
  }
  return section.limits;
}

std::vector<KeyEntry> prefill_keys() { return keys_of<PrefillSection>(); }

}  // namespace tombolo::plan
