// A parameter server without LibTorch: a line through points, fitted by workers that each see some of them.
//
//   trireme run -w 2 -s 2 -- ./parameter_server          all go in step (bsp)
//   trireme run -w 2 -s 2 -- ./parameter_server asp      nobody waits
#include <trireme/parameter_server.h>

#include <cstdio>

int main(int argc, char** argv) try {
  const auto job = trireme::Job::join();
  trireme::ps::ParameterTables line(*job, {{"slope", 1}, {"offset", 1}},
                                    {.optimizer = {.rule = trireme::optim::Rule::kSgd},
                                     .lr = 0.5,
                                     .consistency = trireme::ps::parse_consistency(argc > 1 ? argv[1] : "bsp")});
  line.initialise();
  constexpr int kPoints = 100;
  bool stop = false;
  for (int step = 0; step < 400 && !stop; ++step) {
    float& slope_gradient = line.gradients("slope")[0] = 0;
    float& offset_gradient = line.gradients("offset")[0] = 0;
    for (int i = 0; i < kPoints; ++i) {  // y = 3x - 1
      const float x = static_cast<float>((i * 37 + static_cast<int>(job->rank()) * 11) % kPoints) / kPoints;
      const float error = line.parameters("slope")[0] * x + line.parameters("offset")[0] - (3 * x - 1);
      slope_gradient += error * x;
      offset_gradient += error;
    }
    line.push({.samples = kPoints});
    stop = line.wait().stop;
  }
  line.pull();
  if (job->chief())
    std::printf("y = %.3f x + %.3f after %lu updates\n", line.parameters("slope")[0], line.parameters("offset")[0],
                static_cast<unsigned long>(line.version()));
  line.leave();
} catch (const std::exception& problem) {
  std::fprintf(stderr, "parameter_server: %s\n", problem.what());
  return 1;
}
