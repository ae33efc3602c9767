#pragma once

#include <stdexcept>

namespace trireme {

/// Root of every failure that a peer, a disk or a user can cause. The message says who, what, and what to do next.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A process we talk to is gone: its connection ended or it was declared dead.
class PeerLost : public Error {
 public:
  using Error::Error;
};

/// A peer is silent: a deadline passed.
class Timeout : public Error {
 public:
  using Error::Error;
};

/// A message belongs to an older (or newer) membership of the job than ours.
class StaleView : public Error {
 public:
  using Error::Error;
};

/// The caller, a flag or a peer's request asks for something invalid.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Data is malformed or damaged: a file, a frame, a checksum.
class Corrupt : public Error {
 public:
  using Error::Error;
};

/// A peer does not know the job's secret, or speaks another version of the protocol.
class Unauthenticated : public Error {
 public:
  using Error::Error;
};

/// The operating system refused a file, a socket or a process.
class IoError : public Error {
 public:
  using Error::Error;
};

}  // namespace trireme
