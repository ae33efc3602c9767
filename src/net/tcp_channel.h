#pragma once

#include <memory>
#include <string>

#include "net/asio.h"
#include "net/buffer_pool.h"
#include "net/channel.h"
#include "net/secure/frame_mac.h"

namespace trireme::net {

struct TcpChannelOptions {
  std::string peer;
  FrameLimits limits;
  std::shared_ptr<BufferPool> pool;
  std::shared_ptr<asio::io_context> context;  ///< the socket's: kept as long as the channel
  bool watched = false;                       ///< host_silence() is looked at: see watch_host
};

/// Keys for the tags that frames in the clear carry, as this end sees them.
struct ChannelKeys {
  Digest outgoing;
  Digest incoming;
};

/// A channel over an authenticated stream; its executor must be a strand (the socket's own is used). `receiver` is held
/// weakly: when it is gone, so is the channel. Over plain TCP every frame carries a tag, which is checked before the
/// frame is delivered; the memory that the receiver gave for a payload may have been written to before.
std::shared_ptr<Channel> make_tcp_channel(tcp::socket socket, std::weak_ptr<FrameReceiver> receiver,
                                          TcpChannelOptions options, const ChannelKeys& keys);
std::shared_ptr<Channel> make_tls_channel(std::unique_ptr<TlsStream> stream, std::weak_ptr<FrameReceiver> receiver,
                                          TcpChannelOptions options);

}  // namespace trireme::net
