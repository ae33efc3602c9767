// Ratings of movies by embeddings of users and movies (Koren et al. 2009), a model and a task of one's own:
//
//   trireme data get movielens && trireme run --strategy allreduce -w 2 -- ./movielens data/movielens/ratings.csv

#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>

namespace data = trireme::data;

namespace {

constexpr std::int64_t kWidth = 16;  // of an embedding; one more number says how kind a user, how good a movie is

/// Numbers users and movies from 0, in the order in which they come.
data::DatasetPtr load_ratings(const std::string& file) {
  std::ifstream lines(file);
  std::map<long, std::int64_t> users, movies;
  std::vector<std::int64_t> user, movie;
  std::vector<float> rating;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {  // after the header
    long who = 0, what = 0;
    float stars = 0;
    if (std::sscanf(line.c_str(), "%ld,%ld,%f", &who, &what, &stars) != 3) throw trireme::Corrupt(file + ": " + line);
    user.push_back(users.emplace(who, std::ssize(users)).first->second);
    movie.push_back(movies.emplace(what, std::ssize(movies)).first->second);
    rating.push_back(stars);
  }
  if (rating.empty()) throw trireme::IoError("there are no ratings in " + file + ": see 'trireme data get movielens'");
  return data::in_memory("ratings", {data::column({.name = "user", .classes = {std::ssize(users)}}, user),
                                     data::column({.name = "movie", .classes = {std::ssize(movies)}}, movie),
                                     data::target("rating", rating)});
}

struct Net : torch::nn::Module {
  Net(std::int64_t users, std::int64_t movies)
      : user(register_module("user", torch::nn::Embedding(users, kWidth + 1))),
        movie(register_module("movie", torch::nn::Embedding(movies, kWidth + 1))) {
    for (torch::Tensor& table : parameters()) torch::nn::init::normal_(table, 0, 0.05);
  }
  torch::nn::Embedding user, movie;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw trireme::InvalidArgument("which ratings? movielens FILE [EPOCHS]");
  const auto job = trireme::Job::join();
  const auto all = load_ratings(argv[1]);
  std::vector<std::uint64_t> rows(all->size());
  std::iota(rows.begin(), rows.end(), 0);
  trireme::RandomStream random(1);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  const auto parts = data::split_off_test(data::subset(all, rows));  // every tenth, now a random one
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>(all->schema()[0].limit(0), all->schema()[1].limit(0));
  const auto task = [net](const trireme::Batch& batch) {
    const auto user = net->user(batch["user"]), movie = net->movie(batch["movie"]);  // samples × (width + 1)
    const auto taste = (user * movie).narrow(1, 0, kWidth).sum(1);
    const auto stars = 3.5 + taste + user.select(1, kWidth) + movie.select(1, kWidth);
    const auto errors = (stars - batch["rating"]).square();
    const auto penalty = 0.05 * (user.square().sum(1) + movie.square().sum(1)).mean();
    const double sum = errors.sum().item<double>(), count = static_cast<double>(batch.size());
    return trireme::Outcome{errors.mean() + penalty, {{"rmse", sum, count, trireme::MetricForm::kRoot}}};
  };
  const std::uint64_t epochs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4;
  trireme::Trainer trainer(*job, net, {.batch = 1000, .epochs = epochs, .lr = 1e-2, .task = task});
  const auto result = trainer.fit(parts.train, parts.test);
  if (result.test) std::printf("rmse %.4f on a random tenth\n", result.test->metric("rmse"));  // on the chief
} catch (const std::exception& problem) {
  std::fprintf(stderr, "movielens: %s\n", problem.what());
  return 1;
}
