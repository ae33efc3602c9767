#pragma once
#include "trireme/observe/log.h"
namespace trireme { using namespace observe; }
