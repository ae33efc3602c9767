#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace trireme::cluster {

/// How often workers that take steps of their own (local SGD) meet, and what they make of their parameters then.
struct LocalSgdChoice {
  enum class Outer {
    kNone,      ///< the mean of all workers' parameters
    kSgd,       ///< from the last common parameters towards that mean, by `outer_lr`
    kMomentum,  ///< the same with momentum
    kNesterov,  ///< with Nesterov's: DiLoCo (Douillard et al. 2023)
  };

  Step steps = 16;  ///< of its own that a worker takes between two meetings; at least 1
  Outer outer = Outer::kNone;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  /// Above 0 and at most 1: elastic averaging (EASGD, Zhang et al. 2015). Workers keep parameters of their own; a
  /// common centre goes this far towards their mean, and each worker this far, divided by their number, towards it.
  /// 0 = off.
  double elastic = 0;

  bool operator==(const LocalSgdChoice&) const = default;
};

/// What stands after "local-sgd:": "16", "16,outer=nesterov,outer-lr=0.7,outer-momentum=0.9", "16,elastic=0.5". Throws
/// InvalidArgument that says what was expected.
LocalSgdChoice parse_local_sgd(std::string_view text);

/// The inverse; settings that the choice does not use are left out.
std::string to_string(const LocalSgdChoice& choice);

}  // namespace trireme::cluster
