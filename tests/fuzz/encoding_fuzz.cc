// How data is encoded, as a run keeps it: what is accepted is the same after it is written and read again.
#include "trireme/open.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::returns_or_refuses([&] {
    const data::Encoding encoding = data::Encoding::parse(fuzz::text_of(data, size));
    const std::string written = encoding.to_json();
    fuzz::require(data::Encoding::parse(written).to_json() == written, "another one after it was written");
    if (encoding.table) encoding.table->number_names();
  });
  return 0;
}
