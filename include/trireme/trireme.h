#pragma once

// All of Trireme, and of LibTorch what <torch/torch.h> has. Programs that use no LibTorch include the headers they need
// instead: collective.h, parameter_server.h.

#include <torch/torch.h>

#include "trireme/checkpoint.h"
#include "trireme/collective.h"
#include "trireme/compute_threads.h"
#include "trireme/dataset.h"
#include "trireme/dist.h"
#include "trireme/elastic.h"
#include "trireme/error.h"
#include "trireme/job.h"
#include "trireme/layers.h"
#include "trireme/metrics.h"
#include "trireme/model.h"
#include "trireme/open.h"
#include "trireme/optimizer.h"
#include "trireme/parameter_server.h"
#include "trireme/parameter_slice.h"
#include "trireme/random.h"
#include "trireme/sampler.h"
#include "trireme/schema.h"
#include "trireme/sources.h"
#include "trireme/strategy.h"
#include "trireme/tables.h"
#include "trireme/task.h"
#include "trireme/tensor_parallel.h"
#include "trireme/train_main.h"
#include "trireme/trainer.h"
#include "trireme/transforms.h"
#include "trireme/types.h"
#include "trireme/version.h"
