// One rank of the all-reduce benchmark for gloo:
//
//   allreduce_gloo --rank 0 --ranks 2 --store FOLDER --bytes 4096,1048576 [--settings best|default] [--verbose yes]
//
// FOLDER exists, is empty and the same for all ranks: there they find each other. `best` measures gloo's algorithms for
// each size and takes the fastest; `default` is what gloo::allreduce does when it is told nothing.

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/peers/arguments.h"
#include "bench/peers/fastest.h"
#include "bench/peers/large_buffer.h"
#include "bench/peers/measure.h"

namespace trireme::bench {
namespace {

constexpr std::chrono::seconds kTimeout{60};  // of every wait for a peer; gloo throws then

/// In gloo's synchronous mode a rank writes all of a message before it reads: two that write to each other wait for
/// ever once their messages outgrow the sockets' buffers. Here 16 MiB went well and 32 MiB did not; where buffers are
/// smaller, the first try ends after a shorter wait, and the candidate is left out.
constexpr std::size_t kSynchronousBytes = 16 << 20;
constexpr std::chrono::seconds kSynchronousTimeout{5};

using Algorithms = gloo::AllreduceOptions::Algorithm;

class Gloo final : public AllReducer {
 public:
  /// Meets the other ranks in `folder`. Throws when they do not come within the timeout.
  Gloo(unsigned rank, unsigned ranks, const std::string& folder, bool choose, bool verbose)
      : rank_(rank),
        ranks_(ranks),
        choose_(choose),
        verbose_(verbose),
        store_(folder),
        device_(gloo::transport::tcp::CreateDevice("127.0.0.1")),
        context_(connect()) {}

  unsigned rank() const override { return rank_; }
  unsigned ranks() const override { return ranks_; }

  std::span<float> prepare(std::size_t elements) override {
    run_ = nullptr;  // nobody uses the buffer any more: everybody has passed the last `max`
    buffer_ = LargeBuffer(elements);
    const std::span<float> data = buffer_.span();
    if (choose_) {
      use_fastest(*this, data, all_candidates(data), verbose_);
    } else {
      function("default", data, Algorithms::UNSPECIFIED).use();
    }
    return data;
  }

  void all_reduce() override { run_(); }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  double max(double value) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(&value, 1);
    options.setReduceFunction(static_cast<Reduce*>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

 private:
  using Context = std::shared_ptr<gloo::rendezvous::Context>;
  using Reduce = void(void*, const void*, const void*, std::size_t);  // picks gloo's overload for untyped memory

  /// A connection to each other rank, used by nobody else. Collective.
  Context connect(std::chrono::milliseconds timeout = kTimeout) {
    const auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank_), static_cast<int>(ranks_));
    context->setTimeout(timeout);
    gloo::rendezvous::PrefixStore store(std::to_string(connected_++), store_);
    context->connectFullMesh(store, device_);
    return context;
  }

  /// gloo::allreduce, the interface of today.
  Candidate function(std::string name, std::span<float> data, Algorithms algorithm,
                     std::size_t segment = gloo::detail::AllreduceOptionsImpl::kMaxSegmentSize) {
    const auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(algorithm);
    options->setOutput(data.data(), data.size());
    options->setMaxSegmentSize(segment);
    options->setReduceFunction(static_cast<Reduce*>(&gloo::sum<float>));
    return {std::move(name), [this, options] { run_ = [options] { gloo::allreduce(*options); }; }};
  }

  /// One of the classes of gloo's older interface, on connections of its own: it shrinks their buffers to its messages,
  /// which makes anything else on them crawl.
  template <typename Algorithm>
  Candidate object(std::string name, std::span<float> data, bool polling = false) {
    const Context context = connect(polling ? kSynchronousTimeout : kTimeout);
    for (unsigned peer = 0; polling && peer < ranks_; ++peer) {
      if (peer != rank_) context->getPair(static_cast<int>(peer))->setSync(true, true);
    }
    const auto algorithm =
        std::make_shared<Algorithm>(context, std::vector<float*>{data.data()}, static_cast<int>(data.size()));
    return {std::move(name), [this, algorithm] { run_ = [algorithm] { algorithm->run(); }; }};
  }

  std::vector<Candidate> all_candidates(std::span<float> data) {
    std::vector<Candidate> candidates = {
        function("ring", data, Algorithms::RING),
        function("ring, 4 MiB segments", data, Algorithms::RING, 4 << 20),
        function("bcube", data, Algorithms::BCUBE),
        object<gloo::AllreduceRingChunked<float>>("chunked ring", data),
        object<gloo::AllreduceHalvingDoubling<float>>("halving-doubling", data),
    };
    if (ranks_ <= std::thread::hardware_concurrency() && data.size_bytes() <= kSynchronousBytes) {
      candidates.push_back(
          object<gloo::AllreduceHalvingDoubling<float>>("halving-doubling, synchronous, polling", data, true));
    }
    return candidates;
  }

  unsigned rank_;
  unsigned ranks_;
  bool choose_;
  bool verbose_;
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::transport::Device> device_;
  unsigned connected_ = 0;  // contexts so far: their names in the store
  Context context_;
  LargeBuffer buffer_;
  std::function<void()> run_;
};

void run(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  Gloo library(static_cast<unsigned>(arguments.number("--rank")), static_cast<unsigned>(arguments.number("--ranks")),
               arguments.text("--store"), arguments.choice("--settings", {"best", "default"}) == "best",
               arguments.choice("--verbose", {"no", "yes"}) == "yes");
  measure_sizes(library, "gloo", "tcp", arguments.sizes("--bytes"), std::cout);
  library.barrier();  // nobody closes a connection that another still uses
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  try {
    trireme::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce_gloo: %s\n", error.what());
    return 1;
  }
}
