#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "store/etcd_client.h"
#include "store/memory_store.h"
#include "store/store.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/temp_folder.h"

namespace trireme::store {

/// Where several stores of a test keep the same things.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::unique_ptr<Store> open() = 0;

  /// Makes room for another leader while the one of `term` still believes in itself.
  virtual void depose(std::uint64_t term) = 0;
};

class MemoryPlace : public Place {
 public:
  std::unique_ptr<Store> open() override { return open_memory_store(space_); }
  void depose(std::uint64_t /*term*/) override { space_->depose(); }

 private:
  std::shared_ptr<MemorySpace> space_ = std::make_shared<MemorySpace>();
};

class SqlitePlace : public Place {
 public:
  std::unique_ptr<Store> open() override { return open_store({.location = "sqlite:" + (folder_ / "job.db").string()}); }
  void depose(std::uint64_t /*term*/) override { std::filesystem::remove(folder_ / "job.db.lock"); }

 private:
  TempFolder folder_;
};

/// One etcd for all tests of a process, each with its own job; started by the first that needs it.
class SharedEtcd : public ::testing::Environment {
 public:
  static EtcdCluster& get() {
    if (!cluster_) cluster_ = std::make_unique<EtcdCluster>();
    return *cluster_;
  }
  void TearDown() override { cluster_.reset(); }

 private:
  static inline std::unique_ptr<EtcdCluster> cluster_;
};

inline ::testing::Environment* const kSharedEtcd = ::testing::AddGlobalTestEnvironment(new SharedEtcd);

class EtcdPlace : public Place {
 public:
  std::unique_ptr<Store> open() override { return open_store({.location = SharedEtcd::get().location(job_)}); }
  void depose(std::uint64_t term) override {
    const std::string key = "/trireme/" + job_ + "/leader";
    const EtcdTransaction remove{.key = key, .create_revision = static_cast<std::int64_t>(term), .removals = {key}};
    EXPECT_TRUE(EtcdClient({.members = SharedEtcd::get().addresses()}).run(remove, Deadline::in(5s)).done);
  }

 private:
  const std::string job_ = "job-" + random_hex(6);
};

inline std::unique_ptr<Place> make_place(const std::string& tenant) {
  if (tenant == "memory") return std::make_unique<MemoryPlace>();
  if (tenant == "sqlite") return std::make_unique<SqlitePlace>();
  return std::make_unique<EtcdPlace>();
}

/// The tenants of this build: SQLite is optional.
inline std::vector<std::string> all_tenants() {
#ifdef TRIREME_HAS_SQLITE
  return {"memory", "sqlite", "etcd"};
#else
  return {"memory", "etcd"};
#endif
}

inline std::string tenant_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace trireme::store
