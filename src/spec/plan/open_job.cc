#include "spec/plan/open_job.h"

#include <algorithm>
#include <initializer_list>

#include "spec/plan/job_value.h"

namespace tombolo::plan {
namespace {

bool is_auto(const Value& value) {
  const std::string* text = value.get<std::string>();
  return text && *text == "auto";
}

// A table without what it calls "auto", for keys of which that may be said.
Value without_auto(const Value& section, std::initializer_list<std::string_view> keys) {
  Value::Table kept;
  for (const auto& [key, value] : *section.get<Value::Table>()) {
    const bool open = std::find(keys.begin(), keys.end(), key) != keys.end();
    if (!open || !is_auto(value)) kept.emplace_back(key, value);
  }
  Value out(std::move(kept));
  out.line = section.line;
  return out;
}

// Of a schedule that is given, the fewest stages on a rank; what cannot be read is refused later.
int64_t least_chunks(const Value& parallelism) {
  const Value* given = parallelism.find("schedule");
  const std::string* name = given ? given->get<std::string>() : nullptr;
  const auto kind = name ? from_name<layout::ScheduleKind>(*name) : std::nullopt;
  return kind && !takes_chunks(mapping_of(*kind), 1) ? 2 : 1;
}

template <typename T>
void fix(const Value& section, std::string_view key, const T& value, std::optional<T>& fixed) {
  if (section.find(key)) fixed = value;
}

}  // namespace

Result<OpenJob> parse_open_job(std::string_view text, const std::string& file) {
  return open_job_from_value(TRY(parse_job_value(text, file)).value, file);
}

Result<OpenJob> open_job_from_value(Value value, const std::string& file) {
  Value parallelism{Value::Table{}}, training{Value::Table{}};
  if (const Value* given = value.find("parallelism"); given && given->get<Value::Table>()) {
    parallelism = without_auto(*given, {"tensor", "context", "data", "pipeline", "expert",
                                        "virtual_stages", "zero", "sequence_parallel", "schedule"});
  } else if (given) {
    return unusable(fmt::format("{}:{}: parallelism: wanted a table", file, given->line),
                    "[parallelism]");
  }
  if (const Value* given = value.find("training"); given && given->get<Value::Table>()) {
    training = without_auto(*given, {"micro_batch", "recompute"});
    value.set("training", training);
  }
  Value complete = parallelism;
  if (!complete.find("pipeline")) complete.set("pipeline", 1);
  // As many stages on a rank as the schedule wants, where their number is searched.
  if (!complete.find("virtual_stages")) complete.set("virtual_stages", least_chunks(complete));
  value.set("parallelism", complete);

  OpenJob open;
  open.job = TRY(job_from_value(value, file));
  const layout::Parallelism& p = open.job.parallelism;
  fix(parallelism, "tensor", p.tensor, open.fixed.tensor);
  fix(parallelism, "context", p.context, open.fixed.context);
  fix(parallelism, "data", p.data, open.fixed.data);
  fix(parallelism, "pipeline", p.pipeline, open.fixed.pipeline);
  fix(parallelism, "expert", p.expert, open.fixed.expert);
  fix(parallelism, "virtual_stages", p.virtual_stages, open.fixed.virtual_stages);
  fix(parallelism, "zero", p.zero, open.fixed.zero);
  fix(parallelism, "sequence_parallel", p.sequence_parallel, open.fixed.sequence_parallel);
  fix(training, "micro_batch", open.job.training.micro_batch, open.fixed.micro_batch);
  fix(training, "recompute", open.job.training.recompute, open.fixed.recompute);
  return open;
}

Result<OpenJob> read_open_job(const std::string& path) {
  return open_job_from_value(TRY(read_job_value(path)).value, path);
}

Result<OpenJob> read_setting(const std::string& path) {
  return open_job_from_value(setting_of(TRY(read_job_value(path))), path);
}

}  // namespace tombolo::plan
