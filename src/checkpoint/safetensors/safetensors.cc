#include "checkpoint/safetensors/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace trireme::checkpoint {

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  std::vector<const TensorView*> ordered;
  ordered.reserve(tensors.size());
  for (const TensorView& tensor : tensors) ordered.push_back(&tensor);
  std::ranges::sort(ordered, [](const TensorView* a, const TensorView* b) {
    return std::tuple(size_of(b->dtype), std::string_view(a->name)) <
           std::tuple(size_of(a->dtype), std::string_view(b->name));
  });
  const std::string header = encode_header(ordered, metadata);
  write_file_atomically(path, [&](const auto& sink) {
    sink(as_bytes(header));
    for (const TensorView* tensor : ordered) sink(tensor->data);
  });
}

void SafetensorsFile::Unmap::operator()(std::byte* address) const { ::munmap(address, size); }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  // Non-blocking: opening a named pipe without a writer would otherwise block forever.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_errno("cannot open " + path.string());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_errno("cannot look at " + path.string());
  if (!S_ISREG(status.st_mode)) fail<IoError>("{} is not a file; name a .safetensors file", path.string());

  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {  // an empty file cannot be mapped; the parser rejects it
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED) fail_errno("cannot map " + path.string());
    mapping_ = {static_cast<std::byte*>(address), Unmap{size}};
  }
  content_ = parse_safetensors({mapping_.get(), size}, path.string());
  by_name_.resize(content_.tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  std::ranges::sort(by_name_, {}, [this](std::size_t i) -> const std::string& { return content_.tensors[i].name; });
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto name_at = [this](std::size_t i) { return std::string_view(content_.tensors[i].name); };
  const auto place = std::ranges::lower_bound(by_name_, name, {}, name_at);
  return place != by_name_.end() && name_at(*place) == name ? &content_.tensors[*place] : nullptr;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const TensorView& tensor : content_.tensors) names.push_back(tensor.name);
  fail<InvalidArgument>("{} holds no tensor '{}'{}; was it saved from another model?", path_.string(), name,
                        did_you_mean(name, names));
}

}  // namespace trireme::checkpoint
