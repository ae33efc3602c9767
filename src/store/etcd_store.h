#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "store/store.h"

namespace trireme::store {

/// Where in etcd a job keeps its things.
struct EtcdLocation {
  std::vector<net::Address> members;
  std::string job = "default";  ///< several jobs may share an etcd: their keys begin with /trireme/<job>/
};

/// Parses what follows "etcd://": "a:2379,b:2379,[::1]:2379/job". Without a port 2379 is meant, without a job
/// "default"; "http://" before a member is allowed. Throws InvalidArgument, also for https://, which is not supported.
EtcdLocation parse_etcd_location(const std::string& text);

/// A store in etcd. The leader is the owner of the key /trireme/<job>/leader, which hangs on a lease: the leader's
/// thread keeps that alive, and etcd removes the key when the lease runs out. The term is the revision that made the
/// key.
std::unique_ptr<Store> open_etcd_store(const EtcdLocation& location, std::chrono::milliseconds call_within);

}  // namespace trireme::store
