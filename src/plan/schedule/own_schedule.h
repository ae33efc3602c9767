#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/schedule/schedule.h"

namespace trireme::plan {

// A schedule of one's own, in the place of a ScheduleKind's name: the rows of a file (schedule_text.h) in one line,
// with
// ';' between them. So it is a setting like any other, which workers are given and a run's config.toml keeps.

inline constexpr const char* kOwnSchedule = "own";  ///< Schedule::name of all of them

/// Whether `pipeline` is one, right or wrong, rather than the name of a kind.
bool is_own_schedule(std::string_view pipeline);

/// Reads what `in_one_line` returned. Throws InvalidArgument if it is not sound, or has micro-batches whose backward is
/// split and others whose backward is not.
Schedule own_schedule(std::string_view pipeline);

/// Reads a file of it. Throws InvalidArgument, naming the file.
std::string own_schedule_from_file(const std::string& file);

/// Without messages: they follow from the rest.
std::string in_one_line(const Schedule& schedule);

/// Returns the schedule that `pipeline` names, for these ranks and micro-batches: a kind, with as many stages per rank
/// as `chunks` says (0: as usual), or one of one's own; nullopt if that is for other numbers. Throws InvalidArgument.
std::optional<Schedule> schedule_named(std::string_view pipeline, std::uint32_t chunks, std::uint32_t ranks,
                                       std::uint32_t micro_batches);

}  // namespace trireme::plan
