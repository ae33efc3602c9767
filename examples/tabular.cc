// Regression on a table of numbers and categories, by wide-deep (Cheng et al. 2016):
//
//   ./tabular                                             alone
//   trireme run -w 2 -s 1 --consistency ssp:4 -- ./tabular
//
// tabular [EPOCHS]

#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>

namespace data = trireme::data;

namespace {

constexpr std::int64_t kDistricts = 12;
constexpr std::int64_t kKinds = 4;

/// Flats: size and age, district and kind, and what they cost, in thousands.
data::DatasetPtr flats(std::uint64_t count, std::uint64_t seed) {
  trireme::RandomStream random(seed);
  std::vector<float> numbers;
  std::vector<std::int64_t> categories;
  std::vector<float> prices;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double size = 80 + 25 * random.normal(), age = 60 * random.uniform();
    const auto district = static_cast<std::int64_t>(random.below(kDistricts));
    const auto kind = static_cast<std::int64_t>(random.below(kKinds));
    const double per_metre = 2 + 0.25 * static_cast<double>(district) - 0.01 * age;
    numbers.insert(numbers.end(), {static_cast<float>(size), static_cast<float>(age)});
    categories.insert(categories.end(), {district, kind});
    prices.push_back(static_cast<float>(size * per_metre + 20.0 * static_cast<double>(kind) + 5 * random.normal()));
  }
  data::Field which{.name = "categories", .dtype = trireme::DType::kI64, .shape = {2}, .classes = {kDistricts, kKinds}};
  return data::in_memory("flats", {data::input("numbers", std::move(numbers), {2}),
                                   data::column<std::int64_t>(std::move(which), std::move(categories)),
                                   data::target("price", std::move(prices))});
}

}  // namespace

int main(int argc, char** argv) try {
  const auto job = trireme::Job::join();
  const auto raw = data::Split{.train = flats(4000, 1), .test = flats(500, 2)};
  const auto scale = data::measure(*raw.train, "numbers");
  const auto train = data::normalize(raw.train, "numbers", scale);
  const auto test = data::normalize(raw.test, "numbers", scale);

  torch::manual_seed(1);
  const trireme::Task task = trireme::regression();
  const auto model = trireme::make_model("wide-deep", train->schema(), task.outputs(train->schema()));
  const std::uint64_t epochs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20;
  trireme::Trainer trainer(*job, model, {.batch = 64, .epochs = epochs, .lr = 1e-2, .task = task});
  const auto result = trainer.fit(train, test);
  if (result.test) std::printf("rmse %.1f thousand\n", result.test->metric("rmse"));  // on the chief; the noise has 5
} catch (const std::exception& problem) {
  std::fprintf(stderr, "tabular: %s\n", problem.what());
  return 1;
}
