#include "predict/cost/constants.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/hash.h"
#include "base/toml.h"

namespace tombolo::cost {
namespace {

// They are part of the program: what is wrong in one is a bug.
template <class T>
T read_constants(std::string_view name) {
  const std::string file = fmt::format("src/predict/cost/constants/{}", name);
  const Result<Value> value = parse_toml(constant_text(name), file);
  CHECK(value.has_value(), "{}", value.error().message);
  Result<T> read = read_fields<T>(*value, file);
  CHECK(read.has_value(), "{}", read.error().message);
  return *std::move(read);
}

ConstantFiles read_all() {
  ConstantFiles files;
  for (const std::string_view name : constant_text_names()) {
    if (name.starts_with("device-")) {
      files.devices.push_back(read_constants<DeviceConstants>(name));
    } else if (name.starts_with("fabric-")) {
      files.fabrics.push_back(read_constants<FabricConstants>(name));
    } else {
      files.stacks.push_back(read_constants<StackConstants>(name));
    }
  }
  return files;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Emulated devices are predicted as what they emulate.
std::string plain_name(const std::string& device) {
  constexpr std::string_view kEmulated = "emulated:";
  return device.starts_with(kEmulated) ? device.substr(kEmulated.size()) : device;
}

// What a roofline knows of a device: the shares of its peak, whatever the shapes, and the rate of
// its memory.
DeviceConstants roofline_constants(const cluster::Device& device) {
  return {.name = device.name,
          .matmul_efficiency = device.efficiency,
          .half_rows = 0,
          .half_columns = 0,
          .half_depth = 0,
          .flash_efficiency = device.attention_efficiency,
          .flash_half_sequence = 0,
          .flash_half_head = 0,
          .scores_efficiency = device.attention_efficiency,
          .unaligned_head = 1,
          .unaligned_product = 1,
          .memory_efficiency = 1,
          .kernel = 0_s};
}

// What trains on a CPU is our own: it sums gradients in float32. The shares of the peak are those of
// whole stages: launches and element-wise operators are in them.
void leave_products_alone(StackConstants& stack) {
  stack.gradient_bytes = 4;
  stack.layer_passes = stack.mlp_passes = stack.expert_passes = 0;
  stack.logit_bytes = stack.score_bytes = 0;
  stack.host_layer = stack.host_experts = stack.host_collective = 0_s;
  stack.host_micro_batch = stack.host_iteration = stack.host_optimizer_layer = 0_s;
}

DeviceConstants device_constants(const cluster::Device& device, std::vector<std::string>& assumed) {
  if (!has_constants(device)) {
    assumed.push_back(fmt::format(
        "no constants are known for {}: its operators take what the law roofline says; tombolo "
        "profile measures them",
        device.name));
    return roofline_constants(device);
  }
  const std::vector<DeviceConstants>& files = constant_files().devices;
  const std::string name = plain_name(device.name);
  for (const DeviceConstants& file : files) {
    if (file.name == name || contains(file.devices, name)) return file;
  }
  // Devices of one generation are near in peak and bandwidth, and behave alike; but for GeForce cards, whose peak is
  // half of what their products could reach, so that others reach less of theirs.
  const auto distance = [&](const DeviceConstants& file) {
    const Result<cluster::Device> known = cluster::catalog_device(file.devices.front());
    CHECK(known.has_value(), "constants of {} name no device of the catalog", file.name);
    return std::abs(std::log(known->peak.value / device.peak.value)) +
           std::abs(std::log(known->memory_bandwidth.value / device.memory_bandwidth.value));
  };
  const DeviceConstants* nearest = &files.front();
  for (const DeviceConstants& file : files) {
    const bool geforce = file.devices.front().starts_with("rtx-");
    if (!geforce && distance(file) < distance(*nearest)) nearest = &file;
  }
  assumed.push_back(fmt::format("no constants are known for {}: those of {}, the nearest in speed",
                                device.name, nearest->name));
  return *nearest;
}

// What joins CPUs, where no fabric is named, carries what the cluster says.
FabricConstants nominal_fabric(Seconds latency) {
  return {.name = "nominal",
          .efficiency = 1,
          .single_efficiency = 1,
          .startup = 0_s,
          .latency = latency};
}

Result<FabricConstants> fabric_constants(const std::string& name, const std::string& device,
                                         bool network) {
  const FabricConstants* general = nullptr;
  for (const FabricConstants& file : constant_files().fabrics) {
    if (file.network != network) continue;
    if (file.name == name) return file;
    if (name.empty() && contains(file.devices, device)) return file;
    if (file.devices.empty() && !general) general = &file;
  }
  if (name.empty() && general) return *general;
  std::string hint;
  for (const FabricConstants& file : constant_files().fabrics) {
    if (file.network == network) hint += (hint.empty() ? "one of " : ", ") + file.name;
  }
  return unusable(fmt::format("cluster: {}.fabric = \"{}\": no constants are known for it",
                              network ? "scale_out" : "scale_up", name),
                  hint);
}

Result<const StackConstants*> stack_constants(std::string_view name) {
  for (const StackConstants& file : constant_files().stacks) {
    if (file.name == name) return &file;
  }
  std::string hint;
  for (const StackConstants& file : constant_files().stacks) {
    hint += (hint.empty() ? "one of " : ", ") + file.name;
  }
  return unusable(fmt::format("training.stack = \"{}\": no constants are known for it", name),
                  hint);
}

}  // namespace

const ConstantFiles& constant_files() {
  static const ConstantFiles files = read_all();
  return files;
}

bool has_constants(const cluster::Device& device) {
  return device.kind != cluster::DeviceKind::kCpu;
}

std::string constants_digest() {
  static const std::string all = [] {
    std::string text;
    for (const std::string_view name : constant_text_names()) {
      text += fmt::format("{}\n{}\n", name, constant_text(name));
    }
    return digest(text);
  }();
  return all;
}

Result<Constants> find_constants(const cluster::Datacenter& datacenter, std::string_view stack) {
  Constants found;
  found.device = device_constants(datacenter.device, found.assumed);
  const std::string& device = found.device.name;
  const bool roofline = !has_constants(datacenter.device);
  const auto fabric = [&](const auto& named, bool network) -> Result<FabricConstants> {
    if (roofline && named.fabric.empty()) return nominal_fabric(named.latency);
    return fabric_constants(named.fabric, device, network);
  };
  found.scale_up = TRY(fabric(datacenter.scale_up, /*network*/ false));
  found.scale_out = TRY(fabric(datacenter.scale_out, /*network*/ true));
  found.stack = *TRY(stack_constants(stack));
  if (roofline) leave_products_alone(found.stack);
  return found;
}

}  // namespace tombolo::cost
