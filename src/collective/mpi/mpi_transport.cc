#include "collective/mpi/mpi_transport.h"

#include <algorithm>
#include <array>
#include <list>
#include <set>

#include "base/error.h"
#include "collective/engine_support.h"

namespace trireme::collective {
namespace {

/// MPI in this process. A singleton, because the standard has no handle for it.
class Process {
 public:
  static Process& instance() {
    static Process process;
    return process;
  }

  /// Initialises MPI if that was not done yet. Throws InvalidArgument if it cannot be used as it is.
  void begin() {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized != 0) fail<InvalidArgument>("MPI was finalised in this process and cannot begin again");
    int level = MPI_THREAD_SINGLE;
    if (initialized == 0) {
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
      ours_ = true;
    } else {
      MPI_Query_thread(&level);
    }
    if (level < MPI_THREAD_SERIALIZED) {
      fail<InvalidArgument>(
          "MPI was begun with thread level {}, the MPI engine needs MPI_THREAD_SERIALIZED ({}): {}", level,
          static_cast<int>(MPI_THREAD_SERIALIZED),
          ours_ ? "this MPI offers no more; build one with thread support" : "ask for it in MPI_Init_thread");
    }
  }

  void keep(Requests requests) {
    if (requests.memory) {
      left_.push_back(std::move(requests));
    } else {
      memory_of_others_ = true;
    }
  }

  /// Finalises MPI, unless that might hang or touch memory that no longer exists.
  ~Process() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!ours_ || finalized != 0 || memory_of_others_) return;
    const auto all_ended = [this] {
      std::erase_if(left_, [](Requests& requests) {
        int done = 0;
        MPI_Testall(static_cast<int>(requests.open.size()), requests.open.data(), &done, MPI_STATUSES_IGNORE);
        return done != 0;
      });
      return left_.empty();
    };
    if (wait_until(all_ended, Deadline::in(1s))) MPI_Finalize();
  }

 private:
  bool ours_ = false;
  bool memory_of_others_ = false;  // was given to requests that have not ended
  std::list<Requests> left_;       // abandoned requests, with their memory
};

/// Returns whether a launcher started this process: only then does MPI know its working folder.
bool was_launched() {
  std::array<char, MPI_MAX_INFO_VAL + 1> value{};
  int found = 0;
  MPI_Info_get(MPI_INFO_ENV, const_cast<char*>("wdir"), MPI_MAX_INFO_VAL, value.data(), &found);
  return found != 0;
}

/// Returns "rank 1 and rank 3".
std::string name_all(const std::set<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) {
    if (!text.empty()) text += rank == *ranks.rbegin() ? " and " : ", ";
    text += fmt::format("rank {}", rank);
  }
  return text;
}

/// Returns a text that names the ranks for which a wait took too long.
std::string suspects(Requests& requests) {
  std::set<Rank> silent;
  for (std::size_t i = 0; i < requests.peers.size(); ++i) {
    if (requests.open[i] != MPI_REQUEST_NULL) silent.insert(requests.peers[i]);
  }
  if (silent.empty()) return "a rank has not come; look for one that is stopped, or busy with something else";
  return fmt::format("data to or from {} is missing: look there", name_all(silent));
}

}  // namespace

MpiTransport::MpiTransport(Deadline deadline) {
  Process::instance().begin();
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1 && !was_launched()) {
    fail<InvalidArgument>("this process was not started by MPI: start the program with mpirun -n RANKS …");
  }
  rank_ = static_cast<Rank>(rank);
  size_ = static_cast<std::uint32_t>(size);
  // Never freed: that would be a collective call, in which a destructor might wait forever. MPI_Finalize does it.
  const auto copy = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  Requests duplication{.open = {MPI_REQUEST_NULL}, .peers = {}, .memory = copy};
  check(MPI_Comm_idup(MPI_COMM_WORLD, copy.get(), duplication.open.data()), "MPI_Comm_idup");
  if (!wait_until([&] { return test(duplication); }, deadline)) {
    const std::string why = suspects(duplication);
    abandon(duplication);
    fail<Timeout>("the {} ranks of MPI did not all come within {:.1f} s (rank {}): {}", size,
                  static_cast<double>(deadline.allowed().count()) / 1000.0, rank, why);
  }
  all_ = *copy;
  MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
}

void MpiTransport::check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail<PeerLost>("{} failed: {}; see what mpirun says of the other ranks", what, std::string(text.data(), length));
}

void MpiTransport::send(Requests& requests, Rank peer, MpiTag tag, Bytes bytes, bool synchronous) {
  count_sent(bytes.size());
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMpiPieceBytes))) {
    const int count = static_cast<int>(std::min(bytes.size(), kMpiPieceBytes));
    MPI_Request& request = requests.open.emplace_back(MPI_REQUEST_NULL);
    requests.peers.push_back(peer);
    const auto begin = synchronous ? MPI_Issend : MPI_Isend;
    check(begin(bytes.data(), count, MPI_BYTE, static_cast<int>(peer), static_cast<int>(tag), all_, &request),
          "MPI_Isend");
  }
}

void MpiTransport::recv(Requests& requests, Rank peer, MpiTag tag, MutableBytes bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMpiPieceBytes))) {
    const int count = static_cast<int>(std::min(bytes.size(), kMpiPieceBytes));
    MPI_Request& request = requests.open.emplace_back(MPI_REQUEST_NULL);
    requests.peers.push_back(peer);
    check(MPI_Irecv(bytes.data(), count, MPI_BYTE, static_cast<int>(peer), static_cast<int>(tag), all_, &request),
          "MPI_Irecv");
  }
}

bool MpiTransport::test(Requests& requests) const {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.open.size()), requests.open.data(), &done, MPI_STATUSES_IGNORE),
        "MPI_Testall");
  return done != 0;
}

void MpiTransport::wait(Requests& requests, const OpContext& context) {
  try {
    const auto ended = [&] {
      if (test(requests)) return true;
      if (side_work_) side_work_();
      if (aborted()) throw_aborted(describe(context.operation));
      return false;
    };
    if (wait_until(ended, context.deadline)) return;
    // Testall completes none while one is open: test each, to know which ranks to name.
    for (MPI_Request& request : requests.open) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    fail<Timeout>("{} (call {}) did not end within {:.1f} s (rank {}): {}", describe(context.operation), context.number,
                  static_cast<double>(context.deadline.allowed().count()) / 1000.0, rank_, suspects(requests));
  } catch (...) {
    abandon(requests);
    throw;
  }
}

void MpiTransport::exchange(std::span<const Transfer> transfers, const OpContext& context) {
  Requests requests;
  try {
    for (const Transfer& transfer : transfers) {  // receives first, so that arriving data has a place to go
      if (!transfer.outgoing) recv(requests, transfer.peer, MpiTag::kPushPull, {transfer.data, transfer.bytes});
    }
    for (const Transfer& transfer : transfers) {
      if (transfer.outgoing) send(requests, transfer.peer, MpiTag::kPushPull, {transfer.data, transfer.bytes});
    }
  } catch (...) {
    abandon(requests);
    throw;
  }
  wait(requests, context);
}

void MpiTransport::abandon(Requests& requests) {
  bool open = false;
  for (MPI_Request& request : requests.open) {
    if (request == MPI_REQUEST_NULL) continue;
    int done = 0;
    if (!requests.peers.empty()) {  // requests without an answer can be cancelled, but not those with all ranks
      MPI_Cancel(&request);
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    open = open || done == 0;
  }
  if (open) Process::instance().keep(std::move(requests));
  requests = {};
}

void MpiTransport::abort(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (aborted()) return;
  reason_ = reason;
  aborted_.store(true, std::memory_order_release);
}

void MpiTransport::throw_aborted(const std::string& what) const {
  const MutexLock lock(mutex_);
  fail<PeerLost>("{} on rank {} was aborted: {}", what, rank_, reason_);
}

}  // namespace trireme::collective
