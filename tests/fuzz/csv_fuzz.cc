// A CSV file, plain or gzip, read with several options.
#include <cmath>

#include "trireme/sources.h"

#include "tests/fuzz/fuzz.h"

namespace trireme::data {
namespace {

void load(const std::filesystem::path& path, const CsvOptions& options) {
  fuzz::returns_or_refuses([&] {
    const auto dataset = load_csv(path, options);
    Batch batch;
    const std::vector<std::uint64_t> all = {0, dataset->size() - 1};
    dataset->read(all, batch);
    for (const float feature : batch.values<float>("features"))
      fuzz::require(std::isfinite(feature), "a feature is not finite");
    for (const std::int64_t label : batch.values<std::int64_t>("label")) {
      fuzz::require(label >= 0 && label < dataset->schema()[1].limit(0), "a label is beyond the classes");
    }
  });
}

}  // namespace
}  // namespace trireme::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  data::load(file.path(), {});
  data::load(file.path(), {.header = data::CsvHeader::kPresent, .separator = ';', .label_column = "label"});
  data::load(file.path(),
             {.header = data::CsvHeader::kAbsent, .label_column = std::int64_t{0}, .classes = 3, .shape = {2, 1}});
  return 0;
}
