#include "master/saved_job.h"

#include "base/error.h"

namespace trireme::master {

SavedText SavedText::changes_since(const SavedText& before) const {
  return {.job = job == before.job ? "" : job, .leases = leases == before.leases ? "" : leases};
}

void SavedText::apply(const SavedText& changes) {
  if (!changes.job.empty()) job = changes.job;
  if (!changes.leases.empty()) leases = changes.leases;
}

SavedText to_text(const SavedJob& job) {
  const nlohmann::json json{{"launch", job.launch},
                            {"state", job.state},
                            {"reason", job.reason},
                            {"view", job.view},
                            {"next_member", job.next_member},
                            {"wanted_workers", job.wanted_workers},
                            {"wanted_servers", job.wanted_servers},
                            {"stop", job.stop},
                            {"plan", job.plan ? nlohmann::json(*job.plan) : nlohmann::json()},
                            {"result", job.result}};
  return {.job = json.dump(), .leases = nlohmann::json(job.leases).dump()};
}

SavedJob parse_saved_job(const SavedText& text) {
  SavedJob job;
  try {
    const auto json = nlohmann::json::parse(text.job);
    json.at("launch").get_to(job.launch);
    json.at("state").get_to(job.state);
    json.at("reason").get_to(job.reason);
    json.at("view").get_to(job.view);
    json.at("next_member").get_to(job.next_member);
    json.at("wanted_workers").get_to(job.wanted_workers);
    json.at("wanted_servers").get_to(job.wanted_servers);
    json.at("stop").get_to(job.stop);
    if (!json.at("plan").is_null()) job.plan = json.at("plan").get<cluster::Plan>();
    job.result = json.at("result");
    nlohmann::json::parse(text.leases).get_to(job.leases);
  } catch (const nlohmann::json::exception& problem) {
    fail<Corrupt>("the store holds no job that a master can take over: {}", problem.what());
  }
  return job;
}

}  // namespace trireme::master
