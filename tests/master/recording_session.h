#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/message_codec.h"
#include "net/service.h"

namespace trireme::master {

/// A channel whose other end is the test: it keeps what is sent.
class RecordingChannel final : public net::Channel {
 public:
  void start() override {}
  void send(net::OutFrame frame) override { sent.push_back(std::move(frame)); }
  void close(const std::string& /*reason*/) override {}
  std::string peer() const override { return "the test"; }
  void pump(const std::atomic<bool>& /*done*/, Deadline /*deadline*/) override {}

  std::vector<net::OutFrame> sent;
};

/// The connection of a member to a master without a network: keeps the answers.
class RecordingSession final : public net::Session {
 public:
  explicit RecordingSession(std::uint64_t id) {
    id_ = id;
    channel_ = recording_;
  }

  std::optional<std::vector<MutableBytes>> place(const net::FrameHeader& /*header*/) override { return std::nullopt; }
  void on_frame(net::InFrame /*frame*/) override {}
  void on_close(const std::string& /*reason*/) override {}

  std::size_t answers() const { return recording_->sent.size(); }

  /// The oldest answer that was not asked for yet. Throws what the master refused with; InvalidArgument if there is
  /// none.
  template <typename Reply>
  Reply take() {
    if (recording_->sent.empty()) fail<InvalidArgument>("there is no answer");
    const net::OutFrame frame = std::move(recording_->sent.front());
    recording_->sent.erase(recording_->sent.begin());
    if ((frame.header.flags & net::kError) != 0) {
      net::throw_error(net::decode_message<net::ErrorBody>(as_bytes(frame.body)));
    }
    return net::decode_message<Reply>(as_bytes(frame.body));
  }

 private:
  std::shared_ptr<RecordingChannel> recording_ = std::make_shared<RecordingChannel>();
};

}  // namespace trireme::master
