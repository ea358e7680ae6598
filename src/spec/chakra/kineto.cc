#include "spec/chakra/kineto.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tombolo::chakra {
namespace {

std::string text_of(const Value* value) {
  const auto* text = value ? value->get<std::string>() : nullptr;
  return text ? *text : "";
}

std::optional<double> number_of(const Value* value) {
  if (!value) return std::nullopt;
  if (const auto* real = value->get<double>()) return *real;
  if (const auto* whole = value->get<int64_t>()) return static_cast<double>(*whole);
  return std::nullopt;
}

// Ids come as numbers or as texts; -1 where there is none.
int64_t id_of(const Value* value) {
  if (!value) return -1;
  if (const auto* whole = value->get<int64_t>()) return *whole;
  int64_t id = -1;
  if (const auto* text = value->get<std::string>()) {
    std::from_chars(text->data(), text->data() + text->size(), id);
  }
  return id;
}

std::optional<KinetoKind> kind_of(const std::string& category) {
  if (category == "cpu_op" || category == "user_annotation") return KinetoKind::kOperator;
  if (category == "cuda_runtime" || category == "cuda_driver") return KinetoKind::kRuntime;
  for (const char* device : {"kernel", "gpu_memcpy", "gpu_memset"}) {
    if (category == device) return KinetoKind::kDevice;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<KinetoEvent>> kineto_events(const Value& trace, const std::string& name) {
  const Value* list = trace.find("traceEvents");
  const auto* array = list ? list->get<Value::Array>() : trace.get<Value::Array>();
  if (!array) {
    return unusable(fmt::format("{}: has no traceEvents", name),
                    "the file that torch.profiler's export_chrome_trace wrote");
  }
  std::vector<KinetoEvent> events;
  for (const Value& entry : *array) {
    const auto kind = kind_of(text_of(entry.find("cat")));
    if (!kind || text_of(entry.find("ph")) != "X") continue;
    const auto micros = number_of(entry.find("ts"));
    const double duration = number_of(entry.find("dur")).value_or(0);
    constexpr double kMost = 4e15;  // 127 years, in nanoseconds well below 2^63
    if (!micros || !(*micros >= 0 && *micros < kMost) || !(duration >= 0 && duration < kMost)) {
      return unusable(fmt::format("{}: event {} (\"{}\") has no time that makes sense", name,
                                  &entry - array->data(), text_of(entry.find("name"))));
    }
    KinetoEvent event;
    event.kind = *kind;
    event.name = text_of(entry.find("name"));
    event.thread = id_of(entry.find("tid"));
    event.start.ns = std::llround(*micros * 1000);
    event.end.ns = event.start.ns + std::llround(duration * 1000);
    if (const Value* args = entry.find("args")) {
      event.record = id_of(args->find("Record function id"));
      event.correlation = id_of(args->find("correlation"));
      event.external = id_of(args->find("External id"));
      event.device = id_of(args->find("device"));
      event.stream = id_of(args->find("stream"));
      event.collective = text_of(args->find("Collective name"));
      event.group = text_of(args->find("Process Group Name"));
      event.dtype = text_of(args->find("dtype"));
      event.elements_in = id_of(args->find("In msg nelems"));
      event.peer = std::max(id_of(args->find("Dst Rank")), id_of(args->find("Src Rank")));
    }
    events.push_back(std::move(event));
  }
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  return events;
}

}  // namespace tombolo::chakra
