// A file in the format of LIBSVM, plain or gzip.
#include <cmath>

#include "trireme/sources.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  const std::vector<std::string> files = {file.path().string()};
  fuzz::returns_or_refuses([&] {
    const auto dataset = data::load_libsvm(files, {.features = 64});
    data::Batch batch;
    const std::vector<std::uint64_t> some = {0, dataset->size() - 1};
    dataset->read(some, batch);
    for (const float value : batch.values<float>("features")) fuzz::require(std::isfinite(value), "not finite");
  });
  fuzz::returns_or_refuses([&] { data::load_libsvm(files, {.class_names = {"-1", "1"}, .max_bytes = 100}); });
  return 0;
}
