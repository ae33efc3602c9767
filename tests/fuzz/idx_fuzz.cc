// Two IDX files, plain or gzip: two bytes tell how long the labels are, then the labels, then the images.
#include "trireme/sources.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::Input input(data, size);
  const auto label_bytes = input.number<std::uint16_t>();
  const fuzz::MemoryFile labels(input.text(label_bytes));
  const fuzz::MemoryFile images(input.rest());
  fuzz::returns_or_refuses([&] {
    const auto dataset = data::load_idx(images.path(), labels.path());
    data::Batch batch;
    const std::vector<std::uint64_t> all = {0, dataset->size() - 1};
    dataset->read(all, batch);
    for (const std::int64_t label : batch.values<std::int64_t>("label")) {
      fuzz::require(label >= 0 && label < dataset->schema()[1].limit(0), "a label is beyond the classes");
    }
  });
  return 0;
}
