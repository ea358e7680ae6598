#include "perform/text/byte_pairs.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace tombolo::text {
namespace {

constexpr int64_t kIdMax = INT32_MAX;

// Printable bytes of Latin-1 stand for themselves; the others for the characters from U+0100 on, in
// their order.
bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

std::string two_byte_character(int code) {
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::array<std::string, 256> make_alphabet() {
  std::array<std::string, 256> out;
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = stands_for_itself(byte) ? byte : 0x100 + others++;
    out[static_cast<size_t>(byte)] =
        code < 0x80 ? std::string(1, static_cast<char>(code)) : two_byte_character(code);
  }
  return out;
}

const std::array<std::string, 256>& alphabet() {
  static const std::array<std::string, 256> letters = make_alphabet();
  return letters;
}

uint64_t pair_key(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

// A part of a word, in a list of those that are left.
struct Part {
  int64_t id = 0;
  int64_t previous = -1, next = -1;  // -1: none
  bool joined = false;               // to the one before it
};

// A pair that can be joined, the first to be joined first.
struct Candidate {
  int64_t rank = 0, at = 0, left = 0, right = 0;
  bool operator<(const Candidate& other) const {  // the queue's top is its greatest
    return std::tie(rank, at) > std::tie(other.rank, other.at);
  }
};

Status check_kind(const Value& model, const std::string& name) {
  const Value* type = model.find("type");
  const std::string* kind = type ? type->get<std::string>() : nullptr;
  if (kind ? *kind != "BPE" : type && !type->is_null()) {
    return unusable(fmt::format("{}: model.type is {}", name, kind ? *kind : type->kind()),
                    "a tokenizer with byte-level BPE, as those of GPT-2, Llama 3 and Qwen");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Value* found = model.find(key);
    const std::string* text = found ? found->get<std::string>() : nullptr;
    if (found && !found->is_null() && !(text && text->empty())) {
      return unusable(fmt::format("{}: model.{}: byte-level BPE has none", name, key));
    }
  }
  for (const char* key : {"byte_fallback", "dropout"}) {
    const Value* found = model.find(key);
    const bool* flag = found ? found->get<bool>() : nullptr;
    const double* number = found ? found->get<double>() : nullptr;
    if (found && !found->is_null() && !(flag && !*flag) && !(number && *number == 0)) {
      return unusable(fmt::format("{}: model.{} is not known here", name, key),
                      "a tokenizer with byte-level BPE, as those of GPT-2, Llama 3 and Qwen");
    }
  }
  return {};
}

}  // namespace

std::string spelt(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += alphabet()[static_cast<unsigned char>(byte)];
  return out;
}

std::string unspelt(std::string_view spelling) {
  static const std::unordered_map<std::string_view, char> bytes = [] {
    std::unordered_map<std::string_view, char> out;
    for (size_t i = 0; i < 256; ++i) out.emplace(alphabet()[i], static_cast<char>(i));
    return out;
  }();
  std::string out;
  for (size_t at = 0; at < spelling.size();) {
    // Letters of the alphabet have one byte or two.
    const size_t length = static_cast<unsigned char>(spelling[at]) < 0x80 ? 1 : 2;
    const auto found = bytes.find(spelling.substr(at, length));
    const bool known = found != bytes.end();
    out += known ? found->second : spelling[at];
    at += known ? length : 1;
  }
  return out;
}

Result<BytePairs> BytePairs::read(const Value& model, const std::string& name) {
  if (!model.get<Value::Table>()) {
    return unusable(fmt::format("{}: model: wanted a table, found {}", name, model.kind()));
  }
  TRY(check_kind(model, name));
  BytePairs out;
  if (const Value* found = model.find("ignore_merges")) {
    const bool* flag = found->get<bool>();
    out.whole_words_first_ = flag && *flag;
  }
  TRY(out.read_vocabulary(model.find("vocab"), name));
  TRY(out.read_merges(model.find("merges"), name));
  return out;
}

Status BytePairs::read_vocabulary(const Value* vocabulary, const std::string& name) {
  const auto* table = vocabulary ? vocabulary->get<Value::Table>() : nullptr;
  if (!table) return unusable(fmt::format("{}: model.vocab: wanted a table of ids", name));
  ids_.reserve(table->size());
  spellings_.reserve(table->size());
  for (const auto& [word, value] : *table) {
    const int64_t* id = value.get<int64_t>();
    if (!id || *id < 0 || *id > kIdMax) {
      return unusable(
          fmt::format("{}: model.vocab[\"{}\"]: wanted an id from 0 to {}", name, word, kIdMax));
    }
    ids_.emplace(word, *id);
    spellings_.emplace(*id, word);
    id_max_ = std::max(id_max_, *id);
  }
  for (size_t byte = 0; byte < bytes_.size(); ++byte) bytes_[byte] = find(alphabet()[byte]);
  return {};
}

Status BytePairs::read_merges(const Value* merges, const std::string& name) {
  const auto* list = merges ? merges->get<Value::Array>() : nullptr;
  if (!list) return unusable(fmt::format("{}: model.merges: wanted a list of pairs", name));
  merges_.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    TRY(read_merge((*list)[i], static_cast<int64_t>(i),
                   fmt::format("{}: model.merges[{}]", name, i)));
  }
  return {};
}

// "a b", or in newer files ["a", "b"].
Status BytePairs::read_merge(const Value& merge, int64_t rank, const std::string& where) {
  std::string left, right;
  if (const std::string* text = merge.get<std::string>()) {
    const size_t space = text->find(' ');
    if (space != std::string::npos) {
      left = text->substr(0, space);
      right = text->substr(space + 1);
    }
  } else if (const auto* pair = merge.get<Value::Array>(); pair && pair->size() == 2) {
    const std::string* first = (*pair)[0].get<std::string>();
    const std::string* second = (*pair)[1].get<std::string>();
    if (first && second) {
      left = *first;
      right = *second;
    }
  }
  if (left.empty() || right.empty() || right.find(' ') != std::string::npos) {
    return unusable(fmt::format("{}: wanted two words, as in \"t h\" or [\"t\", \"h\"]", where));
  }
  for (const std::string& word : {left, right, left + right}) {
    if (!find(word)) return unusable(fmt::format("{}: \"{}\" is not in model.vocab", where, word));
  }
  merges_.insert_or_assign(pair_key(*find(left), *find(right)), Merge{rank, *find(left + right)});
  return {};
}

std::string BytePairs::bytes_of(int64_t id) const {
  const auto found = spellings_.find(id);
  return found == spellings_.end() ? "" : unspelt(found->second);
}

std::optional<int64_t> BytePairs::find(const std::string& spelling) const {
  const auto found = ids_.find(spelling);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const BytePairs::Merge* BytePairs::merge_of(int64_t left, int64_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

Status BytePairs::encode(std::string_view word, std::vector<int64_t>& out) const {
  if (whole_words_first_) {
    if (const auto whole = find(spelt(word))) {
      out.push_back(*whole);
      return {};
    }
  }
  std::vector<Part> parts(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    if (!bytes_[byte]) {
      return unusable(fmt::format("the vocabulary has no token for the byte {:#04x} of \"{}\"",
                                  byte, word.substr(0, 40)),
                      "a tokenizer whose vocabulary has all 256 bytes");
    }
    const auto at = static_cast<int64_t>(i);
    parts[i] = {*bytes_[byte], at - 1, i + 1 < word.size() ? at + 1 : -1};
  }
  std::priority_queue<Candidate> queue;
  const auto part = [&](int64_t at) -> Part& { return parts[static_cast<size_t>(at)]; };
  const auto offer = [&](int64_t at) {
    if (at < 0 || part(at).next < 0) return;
    const int64_t left = part(at).id, right = part(part(at).next).id;
    if (const Merge* merge = merge_of(left, right)) queue.push({merge->rank, at, left, right});
  };
  for (int64_t at = 0; at < std::ssize(parts); ++at) offer(at);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Part& left = part(best.at);
    // One of them may have been joined to another since.
    if (left.joined || left.id != best.left || left.next < 0) continue;
    Part& right = part(left.next);
    if (right.id != best.right) continue;
    left.id = merge_of(best.left, best.right)->id;
    right.joined = true;
    left.next = right.next;
    if (left.next >= 0) part(left.next).previous = best.at;
    offer(left.previous);
    offer(best.at);
  }
  for (int64_t at = word.empty() ? -1 : 0; at >= 0; at = part(at).next) out.push_back(part(at).id);
  return {};
}

}  // namespace tombolo::text
