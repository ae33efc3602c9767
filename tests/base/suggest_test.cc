#include "base/suggest.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::vector<std::string> kModels = {"mlp", "lenet", "resnet18"};

TEST(Suggest, FindsTheTypo) {
  EXPECT_EQ(closest("lenett", kModels), "lenet");
  EXPECT_EQ(closest("lnet", kModels), "lenet");
  EXPECT_EQ(closest("resnet81", kModels), "resnet18");
  EXPECT_EQ(closest("mpl", {"mlp", "lenet"}), "mlp");  // neighbours that changed places
  EXPECT_EQ(closest("trian", {"train", "run"}), "train");
  EXPECT_EQ(closest("adma", {"sgd", "adam", "adamw"}), "adam");
  EXPECT_EQ(closest("mxx", {"mlp", "lenet"}), "");  // two edits of three letters: a guess, not a typo
  EXPECT_EQ(closest("lenet", kModels), "lenet");
}

TEST(Suggest, SaysNothingWhenNothingIsClose) {
  EXPECT_EQ(closest("transformer", kModels), "");
  EXPECT_EQ(closest("lenet", {}), "");
  EXPECT_EQ(closest("", kModels), "");
  EXPECT_EQ(closest("c", {"a", "b"}), "");  // every letter is as close as any other
  EXPECT_EQ(did_you_mean("transformer", kModels), "");
}

TEST(Suggest, PhraseForTheEndOfAMessage) { EXPECT_EQ(did_you_mean("lenat", kModels), " (did you mean 'lenet'?)"); }

}  // namespace
}  // namespace trireme
