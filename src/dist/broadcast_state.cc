#include <sstream>

#include <torch/serialize.h>

#include "trireme/dist.h"

namespace trireme::dist {
namespace {

std::string options_key(std::size_t group) { return "options of group " + std::to_string(group); }

std::string save(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive state(archive.compilation_unit());
  optimizer.save(state);
  archive.write("state", state);
  // Torch saves the settings along with the state, but does not load them.
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(options_key(i), options);
  }
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load(torch::optim::Optimizer& optimizer, const std::string& saved) {
  std::istringstream stream(saved);
  torch::serialize::InputArchive archive;
  // The device of whoever saved it may not be ours.
  archive.load_from(stream, optimizer.param_groups().front().params().front().device());
  torch::serialize::InputArchive state;
  archive.read("state", state);
  optimizer.state().clear();  // what the saved one has no state for, has none
  optimizer.load(state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(options_key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace

void broadcast_parameters(World& world, const torch::OrderedDict<std::string, torch::Tensor>& named, Rank root) {
  for (const auto& item : named) world.broadcast_(item.value(), root, item.key());
}

void broadcast_parameters(World& world, const torch::nn::Module& module, Rank root) {
  broadcast_parameters(world, module.named_parameters(), root);
  broadcast_parameters(world, module.named_buffers(), root);
}

void broadcast_optimizer_state(World& world, torch::optim::Optimizer& optimizer, Rank root) {
  std::string saved;
  if (world.rank() == root) saved = save(optimizer);
  const auto size =
      world.broadcast(torch::tensor(static_cast<std::int64_t>(saved.size())), root, "optimizer state size")
          .item<std::int64_t>();
  saved.resize(static_cast<std::size_t>(size));
  world.broadcast_(torch::from_blob(saved.data(), {size}, torch::kUInt8), root, "optimizer state");
  if (world.rank() != root) load(optimizer, saved);
}

}  // namespace trireme::dist
