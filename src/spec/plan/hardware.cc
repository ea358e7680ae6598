#include "spec/plan/hardware.h"

#include "base/field_catalog.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"

namespace tombolo::plan {

template <class Archive>
void describe(Archive& a, MeasuredStage& stage) {
  a.required("slice", stage.slice, "what of the model");
  a.required("device", stage.device, "as the cluster names it");
  a.required("cost", stage.cost, "medians");
  a.required("samples", stage.samples, "microbatches that were timed");
  a.optional("forward_spread", stage.forward_spread, "interquartile range");
  a.optional("backward_spread", stage.backward_spread, "interquartile range");
}

namespace {

struct HardwareFile {
  int tombolo_hardware = kHardwareVersion;
  Hardware hardware;
};

template <class Archive>
void describe(Archive& a, HardwareFile& file) {
  Hardware& hardware = file.hardware;
  a.required("tombolo_hardware", file.tombolo_hardware, "version of the format");
  a.check(file.tombolo_hardware == kHardwareVersion, "tombolo_hardware",
          fmt::format("this program reads version {}", kHardwareVersion));
  a.required("machine", hardware.machine, "processor, cores and BLAS that the figures belong to");
  a.optional("command", hardware.command, "that measured");
  a.required("model", hardware.model, "whose stages were measured");
  a.required("micro_batch", hardware.micro_batch, "sequences per microbatch");
  a.required("precision", hardware.precision, "of the measurement");
  a.required("recompute", hardware.recompute, "as [training] says");
  a.required("stages", hardware.stages, "one for each slice of the model");
  a.optional("links", hardware.links, "between datacenters");
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
  auto value = parse_json(text, name);
  if (!value) {
    value.error().hint = "the file that tombolo profile JOB --out hardware.json writes";
    return fail(value.error());
  }
  return TRY(read_fields<HardwareFile>(*value, name)).hardware;
}

Result<Hardware> read_hardware(const std::string& path) {
  return parse_hardware(TRY(read_file(path)), path);
}

std::vector<KeyEntry> hardware_keys() { return keys_of<HardwareFile>(); }

}  // namespace tombolo::plan
