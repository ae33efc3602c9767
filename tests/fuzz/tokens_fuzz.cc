// A file of tokens, plain, gzip or zstd: a byte tells the length of windows, then the file.
#include "trireme/sources.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::Input input(data, size);
  const std::uint64_t length = input.number<std::uint8_t>();
  const fuzz::MemoryFile file(input.rest());
  for (const std::uint32_t width : {1u, 2u, 4u}) {
    const data::TokenOptions options{.length = length, .width = width};
    fuzz::returns_or_refuses([&] {
      const std::vector<std::string> files = {file.path().string()};
      const auto dataset = width == 1 ? data::load_text(files, options) : data::load_tokens(files, options);
      data::Batch batch;
      const std::vector<std::uint64_t> some = {0, dataset->size() - 1};
      dataset->read(some, batch);
      for (const std::int32_t token : batch.values<std::int32_t>(0)) {
        fuzz::require(token >= 0 && token < dataset->schema()[0].limit(0), "a token is beyond the vocabulary");
      }
    });
  }
  return 0;
}
