#pragma once

#include <string>

#include "plan/schedule/evaluate.h"

namespace trireme::plan {

// Pictures of what `evaluate` found: time runs from left to right, each rank is a row.

/// Returns the picture as text, a column for each unit of time: `F3` is the forward of micro-batch 3, B its backward, I
/// and W the gradients of input and weights, `--` that an action goes on, `.` that the rank is idle. Where a rank has
/// several stages their number is in front: `5F3`. The unit is the shortest action; times that are no multiples of it
/// are rounded. Beyond `most_columns` it is cut off and says so.
std::string text_picture(const Schedule& schedule, const Evaluation& evaluation, std::size_t most_columns = 64);

/// Returns the same as an SVG document of its own, with colours, a legend and the figures as its title. Looks the same
/// in light and dark surroundings.
std::string svg_picture(const Schedule& schedule, const Evaluation& evaluation);

}  // namespace trireme::plan
