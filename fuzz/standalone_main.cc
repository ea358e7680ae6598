// Runs a fuzzer without libFuzzer: every file of the corpus, then random mutations of them.
//
//   toml_fuzz [--mutations N] [--seed S] corpus/toml|FILE...
//
// The same seed tries the same inputs. An input that fails is written to crash-<program>.bin in the
// current folder, or in $TOMBOLO_CRASHES, with the command that replays it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

std::string g_input;  // for the handlers, which take no argument
std::string g_program;

void keep_input() {
  const char* folder = std::getenv("TOMBOLO_CRASHES");
  const std::string path = std::string(folder ? folder : ".") + "/crash-" +
                           std::filesystem::path(g_program).filename().string() + ".bin";
  if (auto done = tombolo::write_file(path, g_input); !done) {
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
  }
  std::fprintf(stderr, "failing input of %zu bytes; replay: %s %s\n", g_input.size(),
               g_program.c_str(), path.c_str());
}

void on_signal(int) {
  keep_input();
  _exit(1);
}

void run(std::string input) {
  g_input = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(g_input.data()), g_input.size());
}

// One to four small injuries, or a splice of two inputs: what breaks parsers.
std::string mutate(std::string text, const std::vector<std::string>& corpus,
                   tombolo::Random& random) {
  constexpr char kNasty[] = {'\0', '\n', '"', '\'', '[',  ']',    '{',
                             '}',  '=',  '.', ',',  '\\', '\x7f', '\xff'};
  const uint64_t injuries = 1 + random.below(4);
  for (uint64_t i = 0; i < injuries; ++i) {
    const size_t at = random.below(text.size() + 1);
    const size_t length = random.below(std::min<size_t>(text.size() - at, 16) + 1);
    switch (random.below(7)) {
      case 0:
        text.insert(at, 1, static_cast<char>(random.below(256)));
        break;
      case 1:
        text.insert(at, 1, kNasty[random.below(sizeof kNasty)]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 5:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 6: {
        const std::string& other = corpus[random.below(corpus.size())];
        text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
        break;
      }
    }
  }
  return text;
}

}  // namespace

int main(int count, char** arguments) {
  uint64_t mutations = 0;
  uint64_t seed = 1;
  std::vector<std::string> paths;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--mutations" && i + 1 < count) {
      mutations = std::strtoull(arguments[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < count) {
      seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) {
        paths.push_back(entry.path().string());
      }
    } else {
      paths.push_back(argument);
    }
  }
  std::sort(paths.begin(), paths.end());

  g_program = arguments[0];
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) {
    // AddressSanitizer reports what it catches by itself and calls back.
    if (__sanitizer_set_death_callback && signal_number != SIGABRT) continue;
    signal(signal_number, on_signal);
  }
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);

  std::vector<std::string> corpus;
  for (const std::string& path : paths) {
    auto text = tombolo::read_file(path);
    if (!text) {
      std::fprintf(stderr, "%s\n", text.error().text().c_str());
      return 2;
    }
    corpus.push_back(*text);
    run(std::move(*text));
  }
  if (corpus.empty()) corpus.emplace_back();
  tombolo::Random random(seed);
  for (uint64_t i = 0; i < mutations; ++i) {
    run(mutate(corpus[random.below(corpus.size())], corpus, random));
  }
  std::printf("%zu files and %llu mutations with seed %llu: fine\n", paths.size(),
              static_cast<unsigned long long>(mutations), static_cast<unsigned long long>(seed));
}
