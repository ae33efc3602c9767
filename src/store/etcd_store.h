#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/http/client.h"
#include "store/store.h"

namespace trireme::store {

/// The place of a job in etcd.
struct EtcdLocation {
  std::vector<net::Address> members;
  std::string job = "default";           ///< several jobs may share an etcd: their keys begin with /trireme/<job>/
  std::optional<net::HttpTls> tls = {};  ///< nullopt = plain HTTP
  std::string auth_file = {};            ///< holds user:password; empty = none
};

/// Parses "etcd://a:2379,b:2379,[::1]:2379/job", or "etcds://…" for TLS. The default port is 2379, the default job
/// "default". After a '?', joined by '&': auth=FILE with user:password; for etcds, ca=FILE, and cert=FILE with key=FILE
/// for a client certificate, all in PEM form. Throws InvalidArgument.
EtcdLocation parse_etcd_location(const std::string& text);

/// Returns what is risky about a location, for a warning: that anybody on the network may read and change the job's
/// state, say. Empty for one that is encrypted and names a user or a client certificate, and on loopback.
std::string etcd_risk(const EtcdLocation& location);

/// Opens a store in etcd. The leader is the owner of the key /trireme/<job>/leader, which is attached to a lease: the
/// leader's thread keeps that alive, and etcd removes the key when the lease expires. The term is the revision that
/// created the key. Throws IoError if the file with the password cannot be read, InvalidArgument if it or one for TLS
/// cannot be used.
std::unique_ptr<Store> open_etcd_store(const EtcdLocation& location, std::chrono::milliseconds call_within);

}  // namespace trireme::store
