#include "spec/plan/hardware.h"

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::plan {

template <class Archive>
void describe(Archive& a, MeasuredStage& stage) {
  a.required("slice", stage.slice);
  a.required("device", stage.device);
  a.required("cost", stage.cost);
  a.required("samples", stage.samples);
  a.optional("forward_spread", stage.forward_spread);
  a.optional("backward_spread", stage.backward_spread);
}

namespace {

struct HardwareFile {
  int tombolo_hardware = kHardwareVersion;
  Hardware hardware;
};

template <class Archive>
void describe(Archive& a, HardwareFile& file) {
  Hardware& hardware = file.hardware;
  a.required("tombolo_hardware", file.tombolo_hardware);
  a.check(file.tombolo_hardware == kHardwareVersion, "tombolo_hardware",
          fmt::format("this program reads version {}", kHardwareVersion));
  a.required("machine", hardware.machine);
  a.optional("command", hardware.command);
  a.required("model", hardware.model);
  a.required("micro_batch", hardware.micro_batch);
  a.required("precision", hardware.precision);
  a.required("recompute", hardware.recompute);
  a.required("stages", hardware.stages);
  a.optional("links", hardware.links);
}

}  // namespace

const MeasuredStage* Hardware::find(const model::Slice& slice, const std::string& device) const {
  for (const MeasuredStage& stage : stages) {
    if (stage.slice == slice && stage.device == device) return &stage;
  }
  return nullptr;
}

std::string to_json_text(const Hardware& hardware) {
  return to_json(write_fields(HardwareFile{kHardwareVersion, hardware})) + "\n";
}

Result<Hardware> parse_hardware(std::string_view text, const std::string& name) {
  const Value value = TRY(parse_json(text, name));
  return TRY(read_fields<HardwareFile>(value, name)).hardware;
}

Result<Hardware> read_hardware(const std::string& path) {
  const std::string text = TRY(read_file(path));
  return parse_hardware(text, path);
}

}  // namespace tombolo::plan
