// The vocabulary of a byte pair encoding, as it is saved; what is accepted encodes any text and gives it back.
#include "data/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::returns_or_refuses([&] {
    const data::Tokenizer tokenizer = data::Tokenizer::load(file.path());
    data::Encoder encoder(tokenizer);
    std::vector<data::Token> tokens;
    encoder.encode("the cat, the hat \xff", tokens);
    for (const data::Token token : tokens) fuzz::require(token < tokenizer.size(), "a token beyond the vocabulary");
  });
  return 0;
}
