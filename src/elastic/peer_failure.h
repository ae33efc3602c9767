#pragma once

#include <exception>
#include <string>

#include "job/job_session.h"

namespace trireme {

/// Returns whether somebody else's end, or silence, is behind it: then another view may do better.
bool is_peer_failure(const std::exception& problem);

/// Tells the others of a failure at once, so that they do not wait for a deadline. But who only lost a peer lets the
/// master speak first: it knows who died. Nobody is told of what a restarted process may do better: its end is noticed,
/// and the others go on. Nor of what is wrong with a learner: they go on without it.
void tell_failure(JobSession& job, const std::exception& problem);

/// Goes on with the others in the next view that can be entered, after the failure of a peer in this one. Blocks until
/// there is one. Returns false if they have ended the job. Throws PeerLost if the job has failed.
bool regroup_after_failure(JobSession& job, std::string reason);

}  // namespace trireme
