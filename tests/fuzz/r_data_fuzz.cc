// What R's serialize() wrote.
#include "data/r/r_data.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  fuzz::returns_or_refuses([&] { data::parse_r(as_bytes(fuzz::text_of(data, size)), "it"); });
  return 0;
}
