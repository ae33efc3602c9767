// An array of NumPy, or a zip of them; the same bytes as both.
#include "trireme/sources.h"

#include "tests/fuzz/fuzz.h"

namespace trireme::data {
namespace {

void read_ends(const Dataset& dataset) {
  Batch batch;
  const std::vector<std::uint64_t> some = {0, dataset.size() - 1};
  dataset.read(some, batch);
}

}  // namespace
}  // namespace trireme::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  const std::vector<std::string> files = {file.path().string()};
  fuzz::returns_or_refuses([&] { data::read_ends(*data::load_npy(files)); });
  fuzz::returns_or_refuses([&] { data::read_ends(*data::load_npz(file.path())); });
  return 0;
}
