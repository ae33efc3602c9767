#include "tensor/loss_factor.h"

namespace trireme {
namespace {

thread_local double loss_factor = 1;

}  // namespace

LossFactor::LossFactor(double factor) : outer_(loss_factor) { loss_factor = factor; }

LossFactor::~LossFactor() { loss_factor = outer_; }

double LossFactor::current() { return loss_factor; }

}  // namespace trireme
