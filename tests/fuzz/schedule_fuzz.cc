// A pipeline schedule as a file: what is accepted can run, and is written as it was read.
#include "plan/schedule/evaluate.h"
#include "plan/schedule/schedule_picture.h"
#include "plan/schedule/schedule_text.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::string_view text = fuzz::text_of(data, size);
  plan::Schedule schedule;
  if (!fuzz::returns_or_refuses([&] { schedule = plan::schedule_from_csv(text, "fuzz"); })) return 0;
  fuzz::require(plan::schedule_from_csv(plan::to_csv(schedule), "fuzz") == schedule, "a schedule changes when written");
  const plan::StageTimes times;
  const plan::Evaluation result = plan::evaluate(schedule, std::span(&times, 1), 0.5);
  fuzz::require(result.bubble >= 0 && result.bubble < 1, "a bubble that is no share");
  fuzz::require(!plan::text_picture(schedule, result).empty(), "no picture");
  return 0;
}
