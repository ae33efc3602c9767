// A table, plain or gzip, with several requests; what was found out about it reads it again, also after it was saved.
#include <cmath>

#include "trireme/open.h"

#include "tests/fuzz/fuzz.h"

namespace trireme::data {
namespace {

void load(const std::filesystem::path& path, const TableOptions& options) {
  fuzz::returns_or_refuses([&] {
    const Table table = load_table(path, options);
    Batch batch;
    const std::vector<std::uint64_t> some = {0, table.samples->size() - 1};
    table.samples->read(some, batch);
    if (table.samples->schema().find("numbers")) {
      for (const float number : batch.values<float>("numbers")) fuzz::require(std::isfinite(number), "not finite");
    }
    const Encoding encoding{.kind = "table", .table = table.encoding};
    const Encoding saved = Encoding::parse(encoding.to_json());
    if (encoding.to_json().find("\xEF\xBF\xBD") != std::string::npos) return;  // text that is not UTF-8 is not kept
    fuzz::require(saved.table == table.encoding, "the encoding is another after it was saved");
    fuzz::require(load_table(path, *saved.table)->size() == table.samples->size(), "other samples by the encoding");
  });
}

}  // namespace
}  // namespace trireme::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  data::load(file.path(), {});
  data::load(file.path(), {.header = data::CsvHeader::kAbsent, .targets = {"0>1"}});
  data::load(file.path(), {.separator = ';', .types = {{"0", data::ColumnKind::kCategory}}, .max_bytes = 200});
  return 0;
}
