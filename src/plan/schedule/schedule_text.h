#pragma once

#include <string>
#include <string_view>

#include "plan/schedule/schedule.h"

namespace trireme::plan {

/// Returns the schedule as PyTorch's files have it: one row per rank, its actions (`0F0`, `1I3`, `2W1`, `0SEND_F0`)
/// separated by commas.
std::string to_csv(const Schedule& schedule);

/// Reads what `to_csv` or PyTorch wrote; `name` becomes the schedule's. Empty cells are idle time and are skipped, as
/// are lines that begin with '#'. Which rank has which stage follows from the rows. Throws InvalidArgument with the
/// row, the cell and the action if something is no action or does not make a sound schedule (see `check_schedule`).
/// Takes memory in proportion to the text.
Schedule schedule_from_csv(std::string_view text, std::string name);

}  // namespace trireme::plan
