#pragma once

#include <algorithm>

#include "cli/flags/train_flag.h"

namespace trireme::cli {

inline auto flags_of_the_mesh() {
  return flag_group(
      "How the model is divided",
      flag("--mesh", &TrainFlags::mesh,
           "divide the model too: data=2,pipe=2,tensor=1: two copies of it, the layers of each among 2 workers; the "
           "result is the same; with allreduce and zero; auto: as trireme plan chooses for the --workers",
           {.check =
                [](const std::string&, const std::string& text) {
                  if (!text.empty() && text != "auto") cluster::parse_mesh(text);
                }},
           [](auto& worker, const TrainFlags& flags) { worker.options.mesh = mesh_of(flags); }),
      flag("--pipeline", &TrainFlags::pipeline,
           "in which order stages work: gpipe, 1f1b, interleaved (interleaved:3: 3 stages per worker), zb-h1, zb-v; "
           "trireme plan --schedule draws them; or a .csv file of your own, as its --csv writes them",
           {.show_default = true}, [](auto& worker, const TrainFlags& flags) { worker.options.mesh = mesh_of(flags); }),
      flag("--stages", &TrainFlags::stages, "how many layers each stage has: 3,5,4; cut by their cost unless given", {},
           [](auto& worker, const TrainFlags& flags) { worker.options.mesh = mesh_of(flags); }),
      flag(
          "--recompute", &TrainFlags::recompute,
          "stages keep only each layer's input, and compute the rest again for the gradient: less memory, a third more "
          "work",
          {}, [](auto& worker, const TrainFlags& flags) { worker.options.mesh = mesh_of(flags); }),
      flag("--tensor-lanes", &TrainFlags::tensor_lanes,
           "blocks that matrices are cut into, whoever computes them: results depend on it, not on tensor=; as many as "
           "tensor= unless given",
           {.of_checkpoints = true,
            .unless_given =
                [](const TrainFlags& flags) {
                  return flags.mesh.empty() ? 0u : std::max(1u, cluster::parse_mesh(flags.mesh).tensor);
                }},
           [](auto& worker, const TrainFlags& flags) { worker.options.mesh = mesh_of(flags); }),
      flag(
          "--memory", &TrainFlags::memory,
          "of each worker that training may fill, such as 8gb: what needs more is refused before anything starts, with "
          "what fits; and what --mesh auto plans with",
          {.of_one_launch = true}),
      flag("--offload", &TrainFlags::offload,
           "for models whose optimizer's state does not fit: it lives on the servers (--strategy ps), and workers hold "
           "weights and gradients only",
           {.of_one_launch = true}));
}

}  // namespace trireme::cli
