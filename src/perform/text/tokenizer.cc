#include "perform/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::text {
namespace {

// The pattern of GPT-2 (openai/gpt-2, src/encoder.py), which ByteLevel means by use_regex.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr size_t kRememberedMax = 200'000;  // words
constexpr size_t kRememberedBytesMax = 64;  // of a word

constexpr const char* kKnownTokenizers =
    "a tokenizer with byte-level BPE, as those of GPT-2, Llama 3 and Qwen";

bool flag_of(const Value& table, const char* key, bool left_out) {
  const Value* found = table.find(key);
  const bool* flag = found ? found->get<bool>() : nullptr;
  return flag ? *flag : left_out;
}

std::string text_of(const Value& table, const char* key) {
  const Value* found = table.find(key);
  const std::string* text = found ? found->get<std::string>() : nullptr;
  return text ? *text : "";
}

bool is_said(const Value* value) { return value && !value->is_null(); }

// The steps of a "Sequence", which keeps them under `key`, or the one step that it is.
template <class Read>
Status each_step(const Value& value, const char* key, const std::string& where, Read read) {
  if (text_of(value, "type") != "Sequence") return read(value, where);
  const Value* list = value.find(key);
  const auto* steps = list ? list->get<Value::Array>() : nullptr;
  if (!steps) return unusable(fmt::format("{}.{}: wanted a list", where, key));
  for (size_t i = 0; i < steps->size(); ++i) {
    TRY(read((*steps)[i], fmt::format("{}.{}[{}]", where, key, i)));
  }
  return {};
}

// Of ["<s>", 0].
Result<int64_t> id_in_pair(const Value& step, const char* key, const std::string& where) {
  const Value* found = step.find(key);
  const auto* pair = found ? found->get<Value::Array>() : nullptr;
  const int64_t* id = pair && pair->size() == 2 ? (*pair)[1].get<int64_t>() : nullptr;
  if (id && *id >= 0 && *id <= INT32_MAX) return *id;
  return unusable(fmt::format("{}.{}: wanted a token and its id", where, key));
}

}  // namespace

// --- added tokens --------------------------------------------------------------------------------

void AddedTokens::add(const std::string& content, int64_t id) {
  std::vector<Entry>& entries = by_first_byte_[static_cast<unsigned char>(content.front())];
  const auto shorter = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.content.size() < content.size();
  });
  entries.insert(shorter, {content, id});
}

std::optional<AddedTokens::Match> AddedTokens::next(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    for (const Entry& entry : by_first_byte_[static_cast<unsigned char>(text[at])]) {
      if (text.substr(at).starts_with(entry.content)) {
        return Match{at, at + entry.content.size(), entry.id};
      }
    }
  }
  return std::nullopt;
}

// --- the file ------------------------------------------------------------------------------------

Result<Tokenizer> Tokenizer::read(const std::string& path) {
  return parse(TRY(read_file(path)), path);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  const Value file = TRY(parse_json(json, name));
  const Value* model = file.find("model");
  if (!model) {
    return unusable(fmt::format("{}: there is no model", name),
                    "the tokenizer.json of a model on Hugging Face");
  }
  Tokenizer out(TRY(BytePairs::read(*model, name)));
  if (const Value* normalizer = file.find("normalizer"); is_said(normalizer)) {
    TRY(each_step(*normalizer, "normalizers", name + ": normalizer",
                  [&](const Value& step, const std::string& where) {
                    return out.read_normalizer(step, where);
                  }));
  }
  TRY(out.read_added_tokens(file.find("added_tokens"), name));
  if (const Value* after = file.find("post_processor"); is_said(after)) {
    TRY(each_step(*after, "processors", name + ": post_processor",
                  [&](const Value& step, const std::string& where) {
                    return out.read_post_processor(step, where);
                  }));
  }
  if (const Value* steps = file.find("pre_tokenizer"); is_said(steps)) {
    TRY(each_step(*steps, "pretokenizers", name + ": pre_tokenizer",
                  [&](const Value& step, const std::string& where) {
                    return out.read_pre_tokenizer(step, where);
                  }));
  }
  if (!out.byte_level_) {
    return unusable(fmt::format("{}: pre_tokenizer: no step is ByteLevel", name), kKnownTokenizers);
  }
  return out;
}

Status Tokenizer::read_added_tokens(const Value* list, const std::string& name) {
  if (!is_said(list)) return {};
  const auto* tokens = list->get<Value::Array>();
  if (!tokens) return unusable(fmt::format("{}: added_tokens: wanted a list", name));
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Value& token = (*tokens)[i];
    const std::string where = fmt::format("{}: added_tokens[{}]", name, i);
    const std::string content = text_of(token, "content");
    const Value* number = token.find("id");
    const int64_t* id = number ? number->get<int64_t>() : nullptr;
    if (content.empty() || !id || *id < 0 || *id > INT32_MAX) {
      return unusable(where + ": wanted a table with content and id");
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (!flag_of(token, key, false)) continue;
      return unusable(
          fmt::format("{}: \"{}\" asks for {}, which is not known here", where, content, key),
          kKnownTokenizers);
    }
    // As a special token may say nothing of it: those are taken as they stand.
    const bool special = flag_of(token, "special", false);
    const bool normalized = flag_of(token, "normalized", !special);
    added_bytes_[*id] = special ? "" : content;
    added_ids_[content] = *id;
    if (normalized) {  // they are looked for in what the normalizer has changed
      const std::string changed = TRY(during(normal_form(content), "reading " + where));
      if (!changed.empty()) after_.add(changed, *id);
    } else {
      before_.add(content, *id);
    }
    added_max_ = std::max(added_max_, *id);
  }
  return {};
}

// Reads the tokens that are added around a text. ByteLevel only adjusts offsets, which are unused.
Status Tokenizer::read_post_processor(const Value& step, const std::string& where) {
  const std::string type = text_of(step, "type");
  if (type == "ByteLevel") return {};
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    around_.before.insert(around_.before.begin(), TRY(id_in_pair(step, "cls", where)));
    around_.after.push_back(TRY(id_in_pair(step, "sep", where)));
    return {};
  }
  if (type != "TemplateProcessing") {
    return unusable(fmt::format("{}: \"{}\" is not known here; known are ByteLevel, "
                                "TemplateProcessing, RobertaProcessing, BertProcessing and "
                                "Sequence",
                                where, type),
                    kKnownTokenizers);
  }
  const Value* single = step.find("single");
  const auto* pieces = single ? single->get<Value::Array>() : nullptr;
  if (!pieces) return unusable(fmt::format("{}.single: wanted a list", where));
  const auto is_text = [](const Value& piece) { return piece.find("Sequence") != nullptr; };
  const auto text = std::ranges::find_if(*pieces, is_text);
  if (text == pieces->end() || std::count_if(pieces->begin(), pieces->end(), is_text) != 1)
    return unusable(fmt::format("{}.single: wanted one Sequence, which is the text", where));
  const Value::Array before(pieces->begin(), text), after(text + 1, pieces->end());
  // A later step adds around what an earlier one has added.
  const auto first = TRY(read_template(before, step, where));
  around_.before.insert(around_.before.begin(), first.begin(), first.end());
  const auto last = TRY(read_template(after, step, where));
  around_.after.insert(around_.after.end(), last.begin(), last.end());
  return {};
}

Result<std::vector<int64_t>> Tokenizer::read_template(const Value::Array& pieces, const Value& step,
                                                      const std::string& where) {
  std::vector<int64_t> out;
  const Value* specials = step.find("special_tokens");
  for (const Value& piece : pieces) {
    const Value* special = piece.find("SpecialToken");
    const std::string token = special ? text_of(*special, "id") : "";
    const Value* known = specials ? specials->find(token) : nullptr;
    const Value* ids = known ? known->find("ids") : nullptr;
    const auto* list = ids ? ids->get<Value::Array>() : nullptr;
    if (!list) {
      return unusable(fmt::format("{}: \"{}\" has no ids in special_tokens", where, token));
    }
    for (const Value& each : *list) {
      const int64_t* id = each.get<int64_t>();
      if (!id || *id < 0 || *id > INT32_MAX)
        return unusable(fmt::format("{}.special_tokens: \"{}\": wanted ids", where, token));
      out.push_back(*id);
    }
  }
  return out;
}

Status Tokenizer::read_normalizer(const Value& normalizer, const std::string& where) {
  constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  const std::string type = text_of(normalizer, "type");
  for (const auto& [word, form] : kForms) {
    if (type != word) continue;
    normalizers_.push_back(form);
    return {};
  }
  return unusable(fmt::format("{}: \"{}\" is not known here", where, type),
                  "NFC, NFD, NFKC, NFKD, or none");
}

Status Tokenizer::read_pre_tokenizer(const Value& step, const std::string& where) {
  const std::string type = text_of(step, "type");
  if (type == "ByteLevel") return read_byte_level(step, where);
  if (byte_level_) {
    return unusable(
        fmt::format("{}: \"{}\" follows ByteLevel, after which there are bytes", where, type),
        kKnownTokenizers);
  }
  if (type == "Split") return read_split(step, where);
  if (type == "Digits") {
    const bool each = flag_of(step, "individual_digits", false);
    steps_.push_back({.pattern = TRY(SplitPattern::compile(each ? R"(\p{N})" : R"(\p{N}+)"))});
    return {};
  }
  return unusable(
      fmt::format("{}: \"{}\" is not known here; known are ByteLevel, Split, Digits and "
                  "Sequence",
                  where, type),
      kKnownTokenizers);
}

Status Tokenizer::read_byte_level(const Value& step, const std::string& where) {
  if (byte_level_) return unusable(fmt::format("{}: a second ByteLevel", where), kKnownTokenizers);
  byte_level_ = true;
  Step read{.prefix_space = flag_of(step, "add_prefix_space", true)};
  if (flag_of(step, "use_regex", true)) read.pattern = TRY(SplitPattern::compile(kGpt2Pattern));
  if (read.pattern || read.prefix_space) steps_.push_back(std::move(read));
  return {};
}

Status Tokenizer::read_split(const Value& step, const std::string& where) {
  const Value* pattern = step.find("pattern");
  const std::string regex = pattern ? text_of(*pattern, "Regex") : "";
  const std::string text = pattern ? text_of(*pattern, "String") : "";
  if (regex.empty() == text.empty()) {
    return unusable(
        fmt::format("{}.pattern: wanted {{\"Regex\": ...}} or {{\"String\": ...}}", where));
  }
  Step read;
  const std::string behavior = text_of(step, "behavior");
  if (behavior == "Removed") {
    read.drops = !flag_of(step, "invert", false);
  } else if (behavior != "Isolated") {
    return unusable(fmt::format("{}.behavior: \"{}\" is not known here; known are Isolated and "
                                "Removed",
                                where, behavior),
                    kKnownTokenizers);
  }
  read.pattern = TRY(during(SplitPattern::compile(regex.empty() ? text : regex, regex.empty()),
                            "reading " + where));
  steps_.push_back(std::move(read));
  return {};
}

std::optional<int64_t> Tokenizer::id_of(const std::string& token) const {
  if (const auto found = added_ids_.find(token); found != added_ids_.end()) return found->second;
  return pairs_.find(token);
}

int64_t Tokenizer::vocabulary() const { return std::max(pairs_.id_max(), added_max_) + 1; }

// --- a text --------------------------------------------------------------------------------------

Result<std::vector<int64_t>> Tokenizer::encode(std::string_view text) {
  TRY(check_utf8(text));
  std::vector<int64_t> out;
  size_t done = 0;
  while (done < text.size()) {
    const auto match = before_.next(text, done);
    TRY(encode_raw(text.substr(done, match ? match->begin - done : std::string_view::npos), true,
                   out));
    if (!match) break;
    out.push_back(match->id);
    done = match->end;
  }
  return out;
}

Result<std::vector<int64_t>> Tokenizer::encode_plain(std::string_view text) {
  TRY(check_utf8(text));
  std::vector<int64_t> out;
  TRY(encode_raw(text, false, out));
  return out;
}

std::string Tokenizer::bytes_of(int64_t id) const {
  const auto added = added_bytes_.find(id);
  return added != added_bytes_.end() ? added->second : pairs_.bytes_of(id);
}

Result<std::string> Tokenizer::normal_form(std::string_view text) const {
  std::string out(text);
  for (const NormalForm form : normalizers_) out = TRY(normalized(out, form));
  return out;
}

// Between the tokens that are looked for before the normalizer.
Status Tokenizer::encode_raw(std::string_view text, bool with_added, std::vector<int64_t>& out) {
  std::string changed;
  if (!normalizers_.empty()) {
    changed = TRY(normal_form(text));
    text = changed;
  }
  if (!with_added) return encode_from(0, text, out);
  size_t done = 0;
  while (done < text.size()) {
    const auto match = after_.next(text, done);
    TRY(encode_from(0, text.substr(done, match ? match->begin - done : std::string_view::npos),
                    out));
    if (!match) break;
    out.push_back(match->id);
    done = match->end;
  }
  return {};
}

// From a step of the pre-tokenizer on, piece by piece: no more is kept than one piece of each.
Status Tokenizer::encode_from(size_t step, std::string_view piece, std::vector<int64_t>& out) {
  if (piece.empty()) return {};
  if (step == steps_.size()) return encode_word(piece, out);
  const Step& own = steps_[step];
  std::string with_space;
  if (own.prefix_space && piece.front() != ' ') {
    with_space = " " + std::string(piece);
    piece = with_space;
  }
  if (!own.pattern) return encode_from(step + 1, piece, out);
  return own.pattern->split(piece, [&](std::string_view part, bool matches) -> Status {
    if (own.drops == matches) return {};
    return encode_from(step + 1, part, out);
  });
}

Status Tokenizer::encode_word(std::string_view word, std::vector<int64_t>& out) {
  if (word.size() > kRememberedBytesMax) return pairs_.encode(word, out);
  auto known = words_.find(std::string(word));
  if (known == words_.end()) {
    std::vector<int64_t> ids;
    TRY(pairs_.encode(word, ids));
    if (words_.size() >= kRememberedMax) words_.clear();
    known = words_.emplace(std::string(word), std::move(ids)).first;
  }
  out.insert(out.end(), known->second.begin(), known->second.end());
  return {};
}

}  // namespace tombolo::text
