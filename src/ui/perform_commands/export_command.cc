#include <CLI/CLI.hpp>

#include "base/units.h"
#include "perform/weights/export_weights.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {

Status export_checkpoint(const ExportCommandOptions& options, std::ostream& out) {
  weights::ExportOptions wanted{
      .checkpoint = options.checkpoint, .out = options.out, .like = options.like};
  // CLI11 has checked both names.
  if (!options.family.empty()) wanted.family = from_name<weights::Family>(options.family);
  if (options.dtype == "bf16") wanted.type = weights::NumberType::kBf16;
  const Bytes most = TRY(during(parse_quantity<Bytes>(options.file_size), "reading --file-size"));
  if (!(most.value >= 1) || most.value > 1e18) {
    return unusable(fmt::format("--file-size {}: no size of a file", options.file_size), "5 GB");
  }
  wanted.file_bytes = static_cast<int64_t>(most.value);
  const weights::ExportSummary done = TRY(weights::export_weights(wanted));
  if (options.json) {
    command::print_json(out, {{"files", Value::Array(done.files.begin(), done.files.end())},
                              {"family", std::string(to_name(done.family))},
                              {"step", done.step},
                              {"tensors", done.tensors},
                              {"parameters", done.parameters},
                              {"bytes", done.bytes}});
    return {};
  }
  out << fmt::format("{}: a {} after step {}, {} tensors, {} parameters, {} bytes ({})\n",
                     options.out, to_name(done.family), done.step, done.tensors, done.parameters,
                     done.bytes, options.dtype);
  for (const std::string& file : done.files) out << fmt::format("  {}\n", file);
  return {};
}

command::Command add_export(CLI::App& app) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* words = command::add_command(
      app, {"export", command::kTraining, "weights of a checkpoint in Hugging Face's layout",
            "tombolo export --checkpoint checkpoints --out weights"});
  std::vector<std::string> families;
  for (const auto& [family, name] : enum_names(weights::Family{})) families.emplace_back(name);
  command::heading(words, command::kGoesIn);
  words
      ->add_option("--checkpoint", options->checkpoint,
                   "checkpoints, of which the newest is taken, or one")
      ->type_name("FOLDER")
      ->required();
  words
      ->add_option("--like", options->like,
                   "folder whose config.json is handed on: that of --init, as a rule")
      ->type_name("FOLDER");
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "for the weights")->type_name("FOLDER")->required();
  command::choices(words->add_option(
                       "--family", options->family,
                       "whose names and config.json; left out: the first that the model is one of"),
                   families);
  command::choices(words->add_option("--dtype", options->dtype, "of a weight"), {"f32", "bf16"});
  words->add_option("--file-size", options->file_size, "weights in a file, at most")
      ->type_name("SIZE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return export_checkpoint(*options, out); }};
}

}  // namespace tombolo::perform_commands
