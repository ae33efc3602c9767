#pragma once

#include <string_view>

#include "trireme/types.h"

namespace trireme::optim {

/// By what the loss is multiplied before backward, and gradients are divided after it: what is too small for fp16 is
/// not lost (Micikevicius et al. 2018, "Mixed Precision Training"). Clipping and updates see the divided gradients.
struct LossScaleOptions {
  bool dynamic = false;      ///< it adapts, as torch's GradScaler does: a step whose gradient, over all lanes, is not
                             ///< finite is left out, and the scale halved; after `growth_every` good ones it doubles
  double scale = 1;          ///< the scale, or the first one; 1 = off, unless dynamic
  Step growth_every = 2000;  ///< dynamic: good steps in a row

  bool operator==(const LossScaleOptions&) const = default;
};

/// Parses "1024", "dynamic", "dynamic,init=65536,every=2000". Throws InvalidArgument that says what was expected.
LossScaleOptions parse_loss_scale(std::string_view text);

/// Throws InvalidArgument.
void validate(const LossScaleOptions& options);

}  // namespace trireme::optim
