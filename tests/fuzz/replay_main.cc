// Runs a fuzz target without libFuzzer, with any compiler: every file of its corpus, then a fixed number of mutations
// of them, the same ones in every run. An input that ends the program is left in a file, to be fixed and then kept in
// the corpus.
//
//   fuzz_csv CORPUS_FOLDER [MUTATIONS]     fuzz_csv FILE: only that
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "tests/fuzz/fuzz.h"

/// There in programs with a sanitizer, whose reports end them without a signal.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace trireme::fuzz {
namespace {

constexpr std::uint64_t kDefaultMutations = 20'000;
constexpr std::size_t kLongestInput = 4096;
constexpr std::size_t kMostMemory = 64u << 20;  // that one input may take, freed or not
constexpr std::uint64_t kSeed = 2024;

std::size_t memory_taken = 0;  // for the present input

// ---- What is left of an input that ends the program.

const std::string* present_input = nullptr;

void keep_input() {
  constexpr const char* kName = "finding.bin";
  constexpr std::string_view kWhere = "the input is in finding.bin, in the folder where this ran\n";
  const int file = ::open(kName, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || present_input == nullptr) return;
  if (::write(file, present_input->data(), present_input->size()) < 0) return;
  if (::write(STDERR_FILENO, kWhere.data(), kWhere.size()) < 0) return;
}

void keep_input_and_die(int signal) {
  keep_input();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void run(const std::string& input) {
  present_input = &input;
  memory_taken = 0;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  present_input = nullptr;
}

// ---- Mutations.

using Corpus = std::vector<std::string>;

constexpr std::array<std::uint64_t, 12> kEdges = {0,      1,          0x7f,       0x80,       0xff,  0x7fff,
                                                  0xffff, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull, 1ull << 63u};

constexpr std::array kTokens = {"-1",
                                "1e999",
                                "18446744073709551615",
                                "9223372036854775808",
                                "4294967295",
                                "0.5",
                                "null",
                                "true",
                                "{",
                                "}",
                                "[",
                                "]",
                                "\"",
                                ",",
                                ":",
                                "\\u0000",
                                "\n",
                                "\r",
                                "",
                                "=",
                                "[[[[[[[["};

class Mutator {
 public:
  Mutator(const Corpus& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string input = pick();
    for (std::uint64_t changes = 1 + random_.below(6); changes > 0; --changes) change(input);
    input.resize(std::min(input.size(), kLongestInput));
    return input;
  }

 private:
  const std::string& pick() { return corpus_[random_.below(corpus_.size())]; }
  std::size_t place_in(const std::string& text) { return random_.below(text.size() + 1); }

  void change(std::string& input) {
    const std::size_t at = place_in(input);
    const std::size_t length = std::min<std::size_t>(1 + random_.below(16), input.size() - at);
    switch (random_.below(9)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random_.below(8)));
        return;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(random_.next());
        return;
      case 2:
        return void(input.erase(at, length));
      case 3:
        return void(input.insert(at, input.substr(at, length)));
      case 4:
        return void(input.insert(at, kTokens[random_.below(kTokens.size())]));
      case 5:
        return overwrite_with_edge(input, at);
      case 6:
        return replace_number(input, at);
      case 7: {  // the end of another
        const std::string& other = pick();
        return void(input.replace(at, std::string::npos, other, place_in(other), std::string::npos));
      }
      default:
        return void(input.insert(at, length, static_cast<char>(random_.next())));
    }
  }

  void overwrite_with_edge(std::string& input, std::size_t at) {
    const std::uint64_t value = kEdges[random_.below(kEdges.size())] + random_.below(3) - 1;
    const std::size_t width = std::size_t{1} << random_.below(4);
    for (std::size_t i = 0; i < width && at + i < input.size(); ++i) input[at + i] = static_cast<char>(value >> 8 * i);
  }

  /// The decimal number at or behind `at`.
  void replace_number(std::string& input, std::size_t at) {
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t begin = input.find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(input.find_first_not_of(kDigits, begin), input.size());
    input.replace(begin, end - begin, std::to_string(kEdges[random_.below(kEdges.size())] + random_.below(3) - 1));
  }

  const Corpus& corpus_;
  RandomStream random_;
};

Corpus read_corpus(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {read_file(path)};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty()) fail<IoError>("{} holds no files", path.string());
  Corpus corpus;
  for (const auto& file : files) corpus.push_back(read_file(file));
  return corpus;
}

int replay(const std::filesystem::path& path, std::uint64_t mutations) {
  const Corpus corpus = read_corpus(path);
  run("");
  for (const std::string& input : corpus) run(input);
  if (!std::filesystem::is_directory(path)) return 0;
  Mutator mutator(corpus, kSeed);
  for (std::uint64_t i = 0; i < mutations; ++i) run(mutator.next());
  std::printf("%zu files and %llu mutations of them\n", corpus.size(), static_cast<unsigned long long>(mutations));
  return 0;
}

void* take(std::size_t size) {
  memory_taken += size;
  if (present_input != nullptr && memory_taken > kMostMemory) {
    memory_taken = 0;  // the words of the finding take memory too
    finding("an input of a few bytes took more memory than 64 MiB");
  }
  void* memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace trireme::fuzz

// Every allocation of the program is counted. (Aligned ones are left to the library: nothing asks for much with them.)
void* operator new(std::size_t size) { return trireme::fuzz::take(size); }
void* operator new[](std::size_t size) { return trireme::fuzz::take(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [MUTATIONS] | FILE\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::signal(signal, trireme::fuzz::keep_input_and_die);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(trireme::fuzz::keep_input);
  try {
    return trireme::fuzz::replay(argv[1], argc == 3 ? std::stoull(argv[2]) : trireme::fuzz::kDefaultMutations);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
