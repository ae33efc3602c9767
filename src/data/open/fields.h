#pragma once

#include "data/open/source.h"

namespace trireme::data {

/// Gives the fields of a source their shapes, and unless it is a table, which has them, their roles and classes: those
/// that `options` name as targets or to be ignored; how many classes a target of whole numbers has. With `known`, they
/// become those of the training set; a target may be missing. Throws InvalidArgument that names the field and what
/// there is.
void settle_fields(Source& source, const OpenOptions& options, const Encoding* known);

}  // namespace trireme::data
