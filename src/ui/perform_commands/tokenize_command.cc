#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>

#include "base/file.h"
#include "base/json.h"
#include "perform/data/token_file.h"
#include "perform/data/token_writer.h"
#include "perform/text/text_encoder.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

// A document, and its place for messages.
using Document = std::function<Status(std::string_view text, const std::string& where)>;

// Lines that are left out, and why the first of them.
struct Skipped {
  int64_t lines = 0;
  std::string first;
};

Result<std::string> text_of_line(const std::string& line, const std::string& path, int number,
                                 const std::string& field) {
  const Value value = TRY(parse_json(line, path, number));
  const Value* found = value.find(field);
  if (const std::string* text = found ? found->get<std::string>() : nullptr) return *text;
  return unusable(fmt::format("{}:{}: \"{}\" is no text of this line", path, number, field),
                  "--field NAME, the key whose text is tokenized");
}

// A line at a time: files of texts are longer than memory.
Status each_line(const TokenizeOptions& options, const std::string& path, Skipped& skipped,
                 const Document& document) {
  errno = 0;
  std::ifstream file;
  if (path != "-") file.open(path);
  if (!file) {
    return unusable(fmt::format("{}: cannot open it for reading: {}", path, std::strerror(errno)),
                    "checking the spelling of the path");
  }
  std::istream& lines = path == "-" ? std::cin : file;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto text = text_of_line(line, path, number, options.field);
    if (!text && options.skip_bad) {
      if (skipped.lines++ == 0) skipped.first = text.error().message;
      continue;
    }
    if (!text) {
      std::string& hint = text.error().hint;
      hint += std::string(hint.empty() ? "" : "; or ") + "--skip-bad, which leaves such lines out";
      return fail(std::move(text.error()));
    }
    TRY(document(*text, fmt::format("{}:{}", path, number)));
  }
  if (!lines.bad()) return {};
  return unusable(fmt::format("{}: cannot read it", path), "the path of a file");
}

Status each_document(const TokenizeOptions& options, const std::string& path, Skipped& skipped,
                     const Document& document) {
  if (options.jsonl || path.ends_with(".jsonl")) return each_line(options, path, skipped, document);
  const std::string text = TRY(read_file(path));
  return document(text, path);
}

// The token that stands before or after every document; nothing where none was asked for.
Result<std::optional<int64_t>> mark(const text::TextEncoder& tokenizer, const std::string& token,
                                    const char* option) {
  if (token.empty()) return std::nullopt;
  const std::optional<int64_t> id = tokenizer.id_of(token);
  if (!id) {
    return unusable(fmt::format("{} {}: the tokenizer has no such token", option, token),
                    "one of its tokens, as in <|endoftext|> or </s>");
  }
  return id;
}

struct Written {
  int64_t tokens = 0, documents = 0, bytes = 0;  // bytes: of the texts
  Skipped skipped;
};

Result<Written> write_tokens(const TokenizeOptions& options, text::TextEncoder& tokenizer,
                             data::TokenWriter writer) {
  const auto begin = TRY(mark(tokenizer, options.begin, "--begin"));
  const auto end = TRY(mark(tokenizer, options.end, "--end"));
  Written written;
  const Document add = [&](std::string_view text, const std::string& where) -> Status {
    auto encoded = tokenizer.encode(text);
    if (!encoded) {
      Error error = std::move(encoded.error());
      error.message = fmt::format("{}: {}", where, error.message);
      return fail(std::move(error));
    }
    std::vector<int64_t>& ids = *encoded;
    if (begin) ids.insert(ids.begin(), *begin);
    if (end) ids.push_back(*end);
    written.bytes += static_cast<int64_t>(text.size());
    return during(writer.add(ids), "tokenizing " + where);
  };
  for (const std::string& path : options.files) {
    TRY(each_document(options, path, written.skipped, add));
  }
  if (writer.tokens() == 0) {
    return unusable(fmt::format("{}: there is no text in it", options.files.front()));
  }
  TRY(writer.finish());
  written.tokens = writer.tokens();
  written.documents = writer.documents();
  return written;
}

}  // namespace

Status tokenize(const TokenizeOptions& options, std::ostream& out) {
  const auto tokenizer =
      TRY(during(text::read_tokenizer(options.tokenizer), "reading the tokenizer"));
  const int64_t vocabulary = tokenizer->vocabulary();
  // CLI11 has checked both names.
  const auto format =
      from_name<plan::TokenFormat>(options.format).value_or(plan::TokenFormat::kMegatron);
  const plan::TokenType type =
      from_name<plan::TokenType>(options.dtype).value_or(data::default_type(format, vocabulary));
  const std::string prefix =
      options.out.ends_with(".bin") ? options.out.substr(0, options.out.size() - 4) : options.out;
  const Written written =
      TRY(write_tokens(options, *tokenizer, TRY(data::TokenWriter::create(prefix, format, type))));
  std::vector<std::string> files{prefix + ".bin"};
  if (format == plan::TokenFormat::kMegatron) files.push_back(prefix + ".idx");
  if (options.json) {
    command::print_json(out, {{"files", Value::Array(files.begin(), files.end())},
                              {"format", std::string(to_name(format))},
                              {"dtype", std::string(to_name(type))},
                              {"tokens", written.tokens},
                              {"documents", written.documents},
                              {"bytes", written.bytes},
                              {"skipped", written.skipped.lines},
                              {"vocabulary", vocabulary}});
    return {};
  }
  if (written.skipped.lines > 0) {
    out << fmt::format("left out: {} line{}, the first one {}\n", written.skipped.lines,
                       written.skipped.lines == 1 ? "" : "s", written.skipped.first);
  }
  out << fmt::format(
      "{}: {} tokens ({}) of {} document{}, {} bytes of text\n"
      "in a job: [data] tokens = [\"{}\"]{}, and a model.vocabulary of at least {}\n",
      fmt::join(files, ", "), written.tokens, to_name(type), written.documents,
      written.documents == 1 ? "" : "s", written.bytes, files.front(),
      format == plan::TokenFormat::kNanogpt && type != plan::TokenType::kUint16
          ? fmt::format(", dtype = \"{}\"", to_name(type))
          : "",
      vocabulary);
  return {};
}

command::Command add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* words = command::add_command(
      app, {"tokenize", command::kTraining, "texts to files of token ids for training",
            "tombolo tokenize tokenizer.json corpus.jsonl --end \"<|endoftext|>\" --out tokens"});
  command::heading(words, command::kGoesIn);
  words
      ->add_option("tokenizer", options->tokenizer,
                   "tokenizer.json with byte-level BPE, or tokenizer.model of SentencePiece")
      ->type_name("TOKENIZER")
      ->required();
  words
      ->add_option("files", options->files,
                   "texts, a document each; of a .jsonl every line is a document; - is stdin")
      ->type_name("FILE")
      ->required();
  words->add_flag("--jsonl", options->jsonl, "files have a JSON object in every line");
  words->add_option("--field", options->field, "the key of a line whose text is tokenized")
      ->type_name("KEY");
  words->add_flag("--skip-bad", options->skip_bad,
                  "leave out lines that are no JSON or have no such text, and count them");
  command::heading(words, command::kComesOut);
  words->add_option("--begin", options->begin, "before every document")->type_name("TOKEN");
  words->add_option("--end", options->end, "after every document, as in <|endoftext|>")
      ->type_name("TOKEN");
  words->add_option("--out", options->out, "of PREFIX.bin and PREFIX.idx")->type_name("PREFIX");
  command::choices(
      words->add_option("--format", options->format, "megatron: .bin and .idx; nanogpt: .bin"),
      {"megatron", "nanogpt"});
  command::choices(words->add_option(
                       "--dtype", options->dtype,
                       "of an id; left out: uint16, or int32 (megatron) and uint32 (nanogpt) for a "
                       "vocabulary beyond 65536"),
                   {"uint8", "int16", "uint16", "int32", "uint32", "int64"});
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return tokenize(*options, out); }};
}

}  // namespace tombolo::perform_commands
