// The one translation unit that compiles Boost.Asio's implementation; everything else sees its declarations only.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
