#include "tensor/device/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include <fmt/format.h>

namespace trireme {

bool is_out_of_memory(const std::exception& problem) {
  if (dynamic_cast<const std::bad_alloc*>(&problem) != nullptr) return true;
  if (dynamic_cast<const c10::Error*>(&problem) == nullptr) return false;
  const std::string_view words = problem.what();
  for (const char* phrase : {"can't allocate memory", "not enough memory", "out of memory"}) {
    if (words.find(phrase) != std::string_view::npos) return true;
  }
  return false;
}

std::string out_of_memory_advice(const std::exception& problem, bool divided) {
  const std::string_view words = problem.what();
  const std::string first_line(words.substr(0, words.find('\n')));
  return fmt::format(
      "out of memory ({}): {}; 'trireme plan --model ... --workers ... --memory ...' says what fits", first_line,
      divided
          ? "divide the model among more workers (--mesh pipe=..., tensor=...), or let stages compute activations "
            "again (--recompute)"
          : "each worker holds the whole model, its gradients and the optimizer's state; divide the latter "
            "(--strategy zero:2), or the model itself (--mesh pipe=2), among more workers, or take a smaller --batch");
}

}  // namespace trireme
