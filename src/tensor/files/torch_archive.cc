#include "tensor/files/torch_archive.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <span>
#include <string_view>

#include <torch/csrc/jit/serialization/import.h>
#include <torch/serialize.h>

#include "base/error.h"
#include "base/file.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

constexpr int kDeepest = 100;                    // modules in modules; no network is deeper
constexpr std::size_t kMostModules = 1'000'000;  // modules that contain each other twice are many in a small file

/// A module of the archive to be.
struct Branch {
  std::map<std::string, const TorchArchive::Entry*> tensors;
  std::map<std::string, Branch> modules;
};

/// 'conv1.weight' is 'conv1', 'weight'. Each part goes unescaped into source text that torch::load parses.
std::vector<std::string> parts_of(const std::string& name) {
  const auto bad = [](char c) { return c == '"' || c == '\'' || c == '\\' || (c >= 0 && c < ' ') || c == 127; };
  std::vector<std::string> parts;
  for (std::string_view rest = name;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (part.empty() || std::ranges::any_of(part, bad)) {
      fail<InvalidArgument>("a torch archive cannot hold the name '{}'; export to safetensors", name);
    }
    parts.emplace_back(part);
    if (dot == std::string_view::npos) return parts;
    rest.remove_prefix(dot + 1);
  }
}

Branch& descend(Branch& root, std::span<const std::string> parts) {
  Branch* branch = &root;
  for (const std::string& part : parts) branch = &branch->modules[part];
  return *branch;
}

Branch arrange(const TorchArchive& archive) {
  Branch root;
  for (const TorchArchive::Entry& entry : archive.tensors) {
    const std::vector<std::string> parts = parts_of(entry.name);
    descend(root, std::span(parts).first(parts.size() - 1)).tensors[parts.back()] = &entry;
  }
  for (const std::string& name : archive.empty_modules) descend(root, parts_of(name));
  return root;
}

void write(const Branch& branch, const std::string& prefix, torch::serialize::OutputArchive& archive) {
  for (const auto& [name, entry] : branch.tensors) {
    if (branch.modules.contains(name)) {
      fail<InvalidArgument>("a torch archive cannot hold both a tensor and a module '{}'; export to safetensors",
                            prefix + name);
    }
    archive.write(name, entry->tensor, entry->buffer);
  }
  for (const auto& [name, module] : branch.modules) {
    torch::serialize::OutputArchive nested(archive.compilation_unit());
    write(module, prefix + name + ".", nested);
    archive.write(name, nested);
  }
}

/// LibTorch appends a stack trace, line by line; its parser begins with an empty line.
std::string first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  return std::string(text.substr(0, text.find('\n')));
}

/// Whether a function begins somewhere in `source`.
bool defines_function(std::string_view source) {
  constexpr std::string_view kDef = "def";
  const auto ends_word = [&](std::size_t at) {
    return at >= source.size() || !(std::isalnum(static_cast<unsigned char>(source[at])) || source[at] == '_');
  };
  for (std::size_t at = source.find(kDef); at != std::string_view::npos; at = source.find(kDef, at + 1)) {
    if ((at == 0 || ends_word(at - 1)) && ends_word(at + kDef.size())) return true;
  }
  return false;
}

/// LibTorch finds a file of source text by its name whatever the case of its letters.
bool is_source(std::string record) {
  std::ranges::transform(record, record.begin(), [](unsigned char c) { return std::tolower(c); });
  return record.ends_with(".py");
}

/// Throws Corrupt unless the file could come from torch::save: those hold declarations, but no functions.
void refuse_code(const std::filesystem::path& file) {
  caffe2::serialize::PyTorchStreamReader reader(file.string());
  if (reader.hasRecord("model.json") || !reader.hasRecord("constants.pkl")) {
    fail<Corrupt>(
        "{} holds no module as torch::save in C++ writes it; if it comes from torch.save in Python, save it as "
        "safetensors there",
        file.string());
  }
  for (const std::string& record : reader.getAllRecords()) {
    if (!is_source(record)) continue;
    const auto [data, size] = reader.getRecord(record);
    if (defines_function({static_cast<const char*>(data.get()), size})) {
      fail<Corrupt>("{} holds code ({}), which loading it could run; only files of torch::save in C++ are read",
                    file.string(), record);
    }
  }
}

/// A file may claim a shape that its bytes do not back, and LibTorch believes it. Nor may a tensor be larger than its
/// bytes by counting some of them many times: a small file would then fill the memory.
bool is_backed(const torch::Tensor& tensor) {
  const torch::IntArrayRef sizes = tensor.sizes();
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; }) || tensor.storage_offset() < 0)
    return false;
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  const std::uint64_t available = tensor.storage().nbytes() / tensor.element_size();
  std::uint64_t elements = 1;
  auto last = static_cast<std::uint64_t>(tensor.storage_offset());
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    const auto size = static_cast<std::uint64_t>(sizes[dimension]);
    std::uint64_t reach = 0;
    if (tensor.stride(dimension) < 0 || __builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(size - 1, static_cast<std::uint64_t>(tensor.stride(dimension)), &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  return elements <= available && last < available;
}

/// Collects what a module and those in it hold.
class Walk {
 public:
  explicit Walk(const std::filesystem::path& file) : file_(file.string()) {}

  void refresh_view(const torch::jit::Module& module, const std::string& name, int depth = 0) {
    if (depth > kDeepest || ++modules_ > kMostModules) fail<Corrupt>("{}: too many modules in modules", file_);
    const std::string prefix = name.empty() ? "" : name + ".";
    bool empty = true;
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      add(prefix + item.name, item.value, /*buffer=*/false);
      empty = false;
    }
    for (const auto& item : module.named_buffers(/*recurse=*/false)) {
      add(prefix + item.name, item.value, /*buffer=*/true);
      empty = false;
    }
    for (const auto& item : module.named_children()) {
      refresh_view(item.value, prefix + item.name, depth + 1);
      empty = false;
    }
    if (empty && !name.empty()) found_.empty_modules.push_back(name);
  }

  TorchArchive take() { return std::move(found_); }

 private:
  void add(const std::string& name, const torch::Tensor& tensor, bool buffer) {
    if (!tensor.defined()) return;
    if (tensor.layout() != torch::kStrided || !tensor.device().is_cpu() || !dtype_of(tensor.scalar_type())) {
      fail<InvalidArgument>("{}: '{}' is of a type that checkpoints do not know: {}", file_, name, tensor.toString());
    }
    if (!is_backed(tensor)) {
      fail<Corrupt>("{}: '{}' is larger than its bytes: the file is damaged", file_, name);
    }
    found_.tensors.push_back({.name = name, .tensor = on_host(tensor), .buffer = buffer});
  }

  std::string file_;
  std::size_t modules_ = 0;
  TorchArchive found_;
};

}  // namespace

void write_torch_archive(const std::filesystem::path& file, const TorchArchive& archive) {
  torch::serialize::OutputArchive out;
  try {
    write(arrange(archive), "", out);
  } catch (const c10::Error& problem) {
    fail<InvalidArgument>("a torch archive cannot hold this model: {}", first_line(problem.what()));
  }
  write_file_atomically(file, [&](const auto& sink) {
    // LibTorch's writer must not see a failure: its destructor would write again, and throw.
    std::exception_ptr problem;
    out.save_to([&](const void* data, std::size_t size) {
      try {
        if (!problem) sink({static_cast<const std::byte*>(data), size});
      } catch (...) {
        problem = std::current_exception();
      }
      return size;
    });
    if (problem) std::rethrow_exception(problem);
  });
}

TorchArchive read_torch_archive(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) {
    fail<IoError>("{} is not a file that can be read; name a .pt file", file.string());
  }
  try {
    refuse_code(file);
    Walk walk(file);
    walk.refresh_view(torch::jit::load(file.string(), torch::Device(torch::kCPU)), "");
    return walk.take();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& problem) {
    fail<Corrupt>("{} is damaged, or was not written by torch::save: {}", file.string(), first_line(problem.what()));
  }
}

}  // namespace trireme
