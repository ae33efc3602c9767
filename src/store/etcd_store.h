#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "store/store.h"

namespace trireme::store {

/// The place of a job in etcd.
struct EtcdLocation {
  std::vector<net::Address> members;
  std::string job = "default";  ///< several jobs may share an etcd: their keys begin with /trireme/<job>/
};

/// Parses what follows "etcd://": "a:2379,b:2379,[::1]:2379/job". The default port is 2379, the default job "default";
/// "http://" before a member is allowed. Throws InvalidArgument, also for https://, which is not supported.
EtcdLocation parse_etcd_location(const std::string& text);

/// Opens a store in etcd. The leader is the owner of the key /trireme/<job>/leader, which is attached to a lease: the
/// leader's thread keeps that alive, and etcd removes the key when the lease expires. The term is the revision that
/// created the key.
std::unique_ptr<Store> open_etcd_store(const EtcdLocation& location, std::chrono::milliseconds call_within);

}  // namespace trireme::store
