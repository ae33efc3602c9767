#pragma once

// Training loops of your own on many processes, in the manner of Horovod: a plain LibTorch program plus these lines.
//
//   const auto world = trireme::dist::init();                              // rank(), size(), local_rank()
//   dist::broadcast_parameters(*world, *net);                              // all begin alike
//   dist::DistributedOptimizer optimizer(*world, sgd, net->named_parameters());
//   ... loss.backward(); optimizer.step(); ...                             // as always
//   world->finish();
//
// The whole program: examples/own_loop.cc. With Trainer (trainer.h) there is no need for any of it.

#include "dist/broadcast_state.h"
#include "dist/distributed_optimizer.h"
#include "dist/large_batch.h"
#include "dist/world.h"
#include "tensor/best_checkpoint.h"
