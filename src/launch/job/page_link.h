#pragma once

#include <string>

#include "observe/run_folder.h"

namespace trireme::launch {

/// Returns the link to the page of a run that goes on, with the token for its buttons, and in a second line how to know
/// its certificate, if it has one; empty if there is no page.
std::string page_link(const observe::RunFolder& run);

}  // namespace trireme::launch
