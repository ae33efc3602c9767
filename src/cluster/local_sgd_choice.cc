#include <charconv>
#include <vector>

#include "trireme/strategy.h"

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::cluster {
namespace {

using Outer = LocalSgdChoice::Outer;

constexpr std::string_view kExample = "such as local-sgd:16, or local-sgd:16,outer=nesterov,outer-lr=0.7";

/// Parses the whole of `text` as a number that `good` accepts.
template <typename Number, typename Good>
Number parse_number(std::string_view what, std::string_view text, Good good, std::string_view expected) {
  Number number{};
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || stopped != text.data() + text.size() || !good(number)) {
    fail<InvalidArgument>("local-sgd: {} '{}' is not {}", what, text, expected);
  }
  return number;
}

Outer parse_outer(std::string_view text) {
  if (text == "none") return Outer::kNone;
  if (text == "sgd") return Outer::kSgd;
  if (text == "momentum") return Outer::kMomentum;
  if (text == "nesterov") return Outer::kNesterov;
  fail<InvalidArgument>("local-sgd: unknown outer optimizer '{}'{}: use none, sgd, momentum or nesterov", text,
                        did_you_mean(std::string(text), {"none", "sgd", "momentum", "nesterov"}));
}

std::string_view name_of(Outer outer) {
  switch (outer) {
    case Outer::kNone:
      return "none";
    case Outer::kSgd:
      return "sgd";
    case Outer::kMomentum:
      return "momentum";
    case Outer::kNesterov:
      return "nesterov";
  }
  return "?";
}

void set(LocalSgdChoice& choice, std::string_view key, std::string_view value) {
  const auto positive = [](double number) { return number > 0 && number <= 1e6; };
  const auto below_one = [](double number) { return number >= 0 && number < 1; };
  const auto share = [](double number) { return number > 0 && number <= 1; };
  if (key == "outer") {
    choice.outer = parse_outer(value);
  } else if (key == "outer-lr") {
    choice.outer_lr = parse_number<double>(key, value, positive, "a number above 0");
  } else if (key == "outer-momentum") {
    choice.outer_momentum = parse_number<double>(key, value, below_one, "at least 0 and below 1");
  } else if (key == "elastic") {
    choice.elastic = parse_number<double>(key, value, share, "above 0 and at most 1");
  } else {
    fail<InvalidArgument>("local-sgd: unknown setting '{}'{}: there are outer, outer-lr, outer-momentum and elastic",
                          key, did_you_mean(std::string(key), {"outer", "outer-lr", "outer-momentum", "elastic"}));
  }
}

}  // namespace

LocalSgdChoice parse_local_sgd(std::string_view text) {
  LocalSgdChoice choice;
  const auto next = [&text] {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
  };
  if (text.empty()) fail<InvalidArgument>("local-sgd: how many steps of its own does a worker take? {}", kExample);
  choice.steps = parse_number<Step>(
      "number of steps", next(), [](Step steps) { return steps > 0; }, "a whole number above 0");
  bool outer_set = false;  // a setting that only an outer optimizer uses
  while (!text.empty()) {
    const std::string_view word = next();
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) fail<InvalidArgument>("local-sgd: '{}' sets nothing: {}", word, kExample);
    const std::string_view key = word.substr(0, equals);
    set(choice, key, word.substr(equals + 1));
    outer_set = outer_set || key.starts_with("outer-");
  }
  if (choice.elastic > 0 && choice.outer != Outer::kNone) {
    fail<InvalidArgument>("local-sgd: elastic averaging has no outer optimizer: give one of the two");
  }
  if (outer_set && choice.outer == Outer::kNone) {
    fail<InvalidArgument>("local-sgd: outer-lr and outer-momentum need an outer optimizer: add outer=nesterov");
  }
  return choice;
}

std::string to_string(const LocalSgdChoice& choice) {
  std::string text = fmt::format("{}", choice.steps);
  if (choice.elastic > 0) text += fmt::format(",elastic={}", choice.elastic);
  if (choice.outer == Outer::kNone) return text;
  text += fmt::format(",outer={},outer-lr={}", name_of(choice.outer), choice.outer_lr);
  if (choice.outer != Outer::kSgd) text += fmt::format(",outer-momentum={}", choice.outer_momentum);
  return text;
}

}  // namespace trireme::cluster
