#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "plan/cost/calibration.h"

namespace trireme::cli {

/// Where `trireme plan --calibrate` keeps what it measured unless told otherwise: trireme/calibration.json in the
/// user's folder for caches (XDG_CACHE_HOME, or .cache in HOME); empty if there is none.
std::filesystem::path usual_calibration_file();

/// Returns what is in `file`, or, if that is empty, in the usual one; null if there is no usual one. Throws IoError
/// if `file` is missing, InvalidArgument, with the file's name, if it holds something else.
std::shared_ptr<const plan::Calibration> find_calibration(const std::string& file);

}  // namespace trireme::cli
