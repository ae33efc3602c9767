// A tf.train.Example, as it stands in a record of a TFRecord file.
#include <vector>

#include "data/records/example.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const Bytes record = as_bytes(fuzz::text_of(data, size));
  fuzz::returns_or_refuses([&] {
    data::parse_example(record, [&](std::string_view, const data::Feature& feature) {
      const std::size_t count = data::count_values(feature);
      fuzz::require(count <= size * 8, "more values than the record can hold");
      std::vector<std::byte> values(count * 8);
      data::copy_values(feature, values.data());
    });
  });
  return 0;
}
