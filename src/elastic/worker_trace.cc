#include "elastic/worker_trace.h"

#include <unistd.h>

namespace trireme {

using Kind = observe::StepEvent::Kind;

WorkerTrace::WorkerTrace(JobSession& job, bool wanted) : job_(job) {
  if (wanted && job_.folder()) trace_.emplace(job_.folder()->path(), job_.slot(), ::getpid());
}

void WorkerTrace::begin(Step step, LaneRange lanes, std::optional<std::uint64_t> unit) {
  in_progress_ = observe::StepEvent{.step = step, .view = job_.view().view, .lanes = lanes, .unit = unit};
  add(Kind::kBegin);
}

void WorkerTrace::end(bool repeated) {
  add(repeated ? Kind::kRepeat : Kind::kCommit);
  in_progress_.reset();
}

void WorkerTrace::enter_view(std::optional<Step> at) {
  if (in_progress_ && at && in_progress_->step < *at) add(Kind::kCommit);
  in_progress_.reset();
  if (trace_ && at) trace_->add({.kind = Kind::kEnter, .step = *at, .view = job_.view().view});
}

void WorkerTrace::add(Kind kind) {
  if (!trace_) return;
  in_progress_->kind = kind;
  trace_->add(*in_progress_);
}

}  // namespace trireme
