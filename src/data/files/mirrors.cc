#include "data/files/mirrors.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace trireme::data {

Mirrors Mirrors::parse(std::string_view text) {
  std::vector<std::filesystem::path> places;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma).empty()) {
      fail<InvalidArgument>("'{}' has an empty part: expected one path, or several with a comma between each two",
                            text);
    }
    places.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return Mirrors(std::move(places));
    rest.remove_prefix(comma + 1);
  }
}

Mirrors Mirrors::operator/(const std::filesystem::path& name) const {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& folder : places_) files.push_back(folder / name);
  return Mirrors(std::move(files));
}

void warn_of_last(const Mirrors& mirrors, const std::vector<MirrorFailure>& failures) {
  const std::vector<std::filesystem::path>& places = mirrors.places();
  if (failures.size() == places.size()) return;
  log_warn("mirror_skipped", "cannot use a mirror of the data, trying the next one",
           {{"mirror", places[failures.size() - 1].string()},
            {"reason", failures.back().reason},
            {"next", places[failures.size()].string()}});
}

void give_up(const std::vector<MirrorFailure>& failures) {
  std::string text = failures.front().reason;
  if (failures.size() > 1) {
    text = fmt::format("none of {} mirrors can be used:", failures.size());
    for (std::size_t i = 0; i < failures.size(); ++i) text += fmt::format(" ({}) {}", i + 1, failures[i].reason);
  }
  if (std::ranges::any_of(failures, &MirrorFailure::corrupt)) throw Corrupt(text);
  throw IoError(text);
}

}  // namespace trireme::data
