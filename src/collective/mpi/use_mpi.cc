#include "trireme/mpi.h"

#include "collective/engines.h"
#include "collective/mpi/mpi_backend.h"

namespace trireme {

void use_mpi() {
  collective::register_engine("mpi", [](Deadline deadline) { return collective::make_mpi_backend(deadline); });
}

}  // namespace trireme
