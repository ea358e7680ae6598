#include "predict/cost/constants.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/toml.h"

namespace tombolo::cost {
namespace {

// They are part of the program: what is wrong in one is a bug.
template <class T>
T read_constants(std::string_view name) {
  const std::string file = fmt::format("src/cost/constants/{}", name);
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

const DeviceConstants& device_constants(const cluster::Device& device,
                                        std::vector<std::string>& assumed) {
  const std::vector<DeviceConstants>& files = constant_files().devices;
  const std::string name = plain_name(device.name);
  for (const DeviceConstants& file : files) {
    if (file.name == name || contains(file.devices, name)) return file;
  }
  // Devices of one generation are near in peak and bandwidth, and behave alike.
  const auto distance = [&](const DeviceConstants& file) {
    const Result<cluster::Device> known = cluster::catalog_device(file.devices.front());
    CHECK(known.has_value(), "constants of {} name no device of the catalog", file.name);
    return std::abs(std::log(known->peak.value / device.peak.value)) +
           std::abs(std::log(known->memory_bandwidth.value / device.memory_bandwidth.value));
  };
  const DeviceConstants* nearest = &files.front();
  for (const DeviceConstants& file : files) {
    if (distance(file) < distance(*nearest)) nearest = &file;
  }
  assumed.push_back(fmt::format("no constants are known for {}: those of {}, the nearest in speed",
                                device.name, nearest->name));
  return *nearest;
}

Result<const FabricConstants*> fabric_constants(const std::string& name, const std::string& device,
                                                bool network) {
  const FabricConstants* general = nullptr;
  std::vector<std::string> known;
  for (const FabricConstants& file : constant_files().fabrics) {
    if (file.network != network) continue;
    known.push_back(file.name);
    if (file.name == name) return &file;
    if (name.empty() && contains(file.devices, device)) return &file;
    if (file.devices.empty() && !general) general = &file;
  }
  if (name.empty() && general) return general;
  std::string hint;
  for (const std::string& one : known) hint += (hint.empty() ? "one of " : ", ") + one;
  return unusable(fmt::format("cluster: {}.fabric = \"{}\": no constants are known for it",
                              network ? "scale_out" : "scale_up", name),
                  hint);
}

Result<const StackConstants*> stack_constants(std::string_view name, const std::string& device) {
  const StackConstants* general = nullptr;
  std::vector<std::string> known;
  for (const StackConstants& file : constant_files().stacks) {
    if (!contains(known, file.stack)) known.push_back(file.stack);
    if (file.stack != name) {
      if (file.name == name) return &file;  // one release by its own name
      continue;
    }
    if (contains(file.devices, device)) return &file;
    if (file.devices.empty()) general = &file;
  }
  if (general) return general;
  std::string hint;
  for (const std::string& one : known) hint += (hint.empty() ? "one of " : ", ") + one;
  return unusable(fmt::format("training.stack = \"{}\": no constants are known for it", name),
                  hint);
}

}  // namespace

const ConstantFiles& constant_files() {
  static const ConstantFiles files = read_all();
  return files;
}

Result<Constants> find_constants(const cluster::Datacenter& datacenter, std::string_view stack) {
  Constants found;
  found.device = device_constants(datacenter.device, found.assumed);
  const std::string& device = found.device.name;
  found.scale_up = *TRY(fabric_constants(datacenter.scale_up.fabric, device, false));
  found.scale_out = *TRY(fabric_constants(datacenter.scale_out.fabric, device, true));
  found.stack = *TRY(stack_constants(stack, device));
  return found;
}

}  // namespace tombolo::cost
