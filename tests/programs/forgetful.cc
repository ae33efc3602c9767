// A worker that ends well, but without the goodbye that a job wants.
#include <trireme/collective.h>
#include <trireme/job.h>

int main() { trireme::Job::join()->ranks(); }
