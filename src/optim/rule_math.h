#pragma once

// The update rules for one element: what servers and workers run in loops over memory (update_rule.cc), and GPUs in
// kernels (cuda/update.cu). One text, so that they give the same bits; both are compiled without fused multiply-add.

#include <cmath>

#if defined(__CUDACC__)
#define TRIREME_ANYWHERE __host__ __device__ __forceinline__
#else
#define TRIREME_ANYWHERE [[gnu::always_inline]] inline
#endif

namespace trireme::optim {

/// What is done to the gradient before the rule sees it. Without branches: an infinite limit clips nothing, and a zero
/// decay adds nothing.
struct Preparation {
  float scale;
  float limit;
  float decay;

  TRIREME_ANYWHERE float operator()(float gradient, float parameter) const {
    const float scaled = gradient * scale;
    const float below = scaled > limit ? limit : scaled;  // written so that NaN passes through
    const float clipped = below < -limit ? -limit : below;
    return clipped + decay * parameter;
  }
};

struct AdamConstants {
  float keep1, take1, keep2, take2;
  float shrink;        ///< factor for the parameter: 1 except with AdamW's decay
  float step_size;     ///< lr / (1 - beta1^step)
  float inverse_root;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
};

struct FtrlConstants {
  float lr, beta;
  float l1, l2;  ///< times lr
};

/// All that an update of one parameter needs to know in a step, whatever the rule; plain memory, so that it can be
/// copied to a GPU.
struct UpdateConstants {
  Preparation prepare;
  float lr;
  float keep;  ///< momentum, nesterov, rmsprop
  float take;  ///< momentum, rmsprop
  float epsilon;
  bool first;  ///< step 1
  AdamConstants adam;
  FtrlConstants ftrl;
  float prune_below;
  float average_keep;
  float average_take;
};

// Products and quotients are in the order in which torch's addcmul and addcdiv take them.

TRIREME_ANYWHERE void sgd(float& p, float g, const UpdateConstants& c) { p -= c.lr * c.prepare(g, p); }

TRIREME_ANYWHERE void momentum(float& p, float& buffer, float g, const UpdateConstants& c) {
  buffer = buffer * c.keep + c.take * c.prepare(g, p);
  p -= c.lr * buffer;
}

TRIREME_ANYWHERE void nesterov(float& p, float& buffer, float g, const UpdateConstants& c) {
  const float gradient = c.prepare(g, p);
  buffer = buffer * c.keep + gradient;
  p -= c.lr * (gradient + c.keep * buffer);
}

TRIREME_ANYWHERE void adagrad(float& p, float& sum, float g, const UpdateConstants& c) {
  const float gradient = c.prepare(g, p);
  sum += gradient * gradient;
  p -= c.lr * gradient / (std::sqrt(sum) + c.epsilon);
}

TRIREME_ANYWHERE void rmsprop(float& p, float& square, float g, const UpdateConstants& c) {
  const float gradient = c.prepare(g, p);
  square = square * c.keep + c.take * gradient * gradient;
  p -= c.lr * gradient / (std::sqrt(square) + c.epsilon);
}

TRIREME_ANYWHERE void adam(float& p, float& mean, float& square, float g, const UpdateConstants& constants) {
  const AdamConstants& c = constants.adam;
  const float gradient = constants.prepare(g, p);
  mean = mean * c.keep1 + c.take1 * gradient;
  square = square * c.keep2 + c.take2 * gradient * gradient;
  p = p * c.shrink - c.step_size * mean / (std::sqrt(square) * c.inverse_root + c.epsilon);
}

/// FTRL-Proximal with both sides of the paper's closed form multiplied by the learning rate: z here is alpha * z there.
/// For a constant rate that is the same. With a schedule the paper's parameters would move even without a gradient (to
/// zero as the rate goes to zero); these do not.
TRIREME_ANYWHERE void ftrl(float& p, float& z, float& n, float g, const UpdateConstants& constants) {
  const FtrlConstants& c = constants.ftrl;
  const float gradient = constants.prepare(g, p);
  const float sum = n + gradient * gradient;
  const float root = std::sqrt(sum);
  const float moved = z + c.lr * gradient - (root - std::sqrt(n)) * p;
  const float magnitude = std::fabs(moved) - c.l1;
  const float shrunk = magnitude > 0 ? magnitude : 0.0f;
  const float divisor = c.beta + root + c.l2;
  const float solved = std::copysign(shrunk, -moved) / divisor;
  p = divisor == 0 ? p : solved;  // no gradient yet and no smoothing: 0 / 0
  z = moved;
  n = sum;
}

/// The state from which FTRL yields the current parameter: the closed form, solved for z at n = 0.
TRIREME_ANYWHERE float ftrl_start(float p, const FtrlConstants& c) {
  const float l1 = p == 0 ? 0.0f : std::copysign(c.l1, p);
  return -p * (c.beta + c.l2) - l1;
}

/// Whether the parameter is pruned from now on.
TRIREME_ANYWHERE float mark_small(float p, float pruned, float below) { return std::fabs(p) < below ? 1.0f : pruned; }

TRIREME_ANYWHERE float averaged(float mean, float p, float keep, float take) { return mean * keep + take * p; }

}  // namespace trireme::optim
