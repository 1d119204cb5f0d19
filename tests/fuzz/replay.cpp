// Feeds a fuzz target a fixed sequence of mutated examples, the same on every machine:
//   fuzz_choice [COUNT [SEED]]
// An input that breaks a promise is printed, so that it can become a row of a table test.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "fuzz.h"

namespace {

std::string input;

extern "C" void show_input(int) {
  std::fputs("input: \"", stderr);
  for (const char c : input) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      std::fputc(c, stderr);
    } else {
      std::fprintf(stderr, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
  std::fputs("\"\n", stderr);
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string text = example();
    for (std::size_t changes = below(6); changes > 0; --changes) change(text);
    return text;
  }

 private:
  // Plain remainders: the library's distributions differ between implementations.
  std::size_t below(std::size_t end) { return random_() % end; }

  std::string example() {
    const auto all = fuzz::examples();
    return std::string(all[below(all.size())]);
  }

  char character() {
    static constexpr std::string_view kLikely = "0123456789,:@-+ .xKMGTiBGPUMIsimcudanone";
    return below(8) == 0 ? static_cast<char>(below(256)) : kLikely[below(kLikely.size())];
  }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text.insert(at, 1, character()); break;
      case 1: text.erase(at, 1 + below(3)); break;
      case 2:
        if (at < text.size()) text[at] = character();
        break;
      case 3: text.insert(at, text.substr(at / 2, 1 + below(12))); break;
      case 4: text = text.substr(0, at) + example(); break;
      default: text.insert(at, std::to_string(random_() >> below(64))); break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000;
  Mutator mutator(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::signal(SIGABRT, show_input);
  const auto run = [] {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  for (const std::string_view example : fuzz::examples()) {
    input = example;
    run();
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    input = mutator.next();
    run();
  }
  std::printf("%zu examples and %llu mutations kept every promise\n", fuzz::examples().size(),
              static_cast<unsigned long long>(count));
}
