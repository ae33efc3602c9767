#include "data/files/mirrors.h"

#include "trireme/sources.h"

#include "base/file.h"
#include "base/log.h"
#include "support.h"
#include "tests/support/events.h"

namespace trireme::data {
namespace {

using Labels = std::vector<std::int64_t>;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two images of 1x1 pixel and their labels, 3 and `last`.
const std::string kTwoImages("\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1\5\6", 18);
std::string labels_with(char last) { return std::string("\0\0\10\1\0\0\0\2\3", 9) + last; }

/// Folders a and b. The labels of a end in 4, those of b in 5, so that one sees which was read.
class MirrorsTest : public ::testing::Test {
 protected:
  MirrorsTest() {
    for (const char* folder : {"a", "b"}) {
      std::filesystem::create_directory(folder_ / folder);
      folder_.write(std::string(folder) + "/images", kTwoImages);
    }
    folder_.write("a/labels", labels_with(4));
    folder_.write("b/labels", labels_with(5));
    set_up_logging({.file = folder_ / "log", .to_stderr = false});
  }
  ~MirrorsTest() override { set_up_logging({}); }

  Labels load() const {
    const Mirrors folders = Mirrors::parse(path("a") + "," + path("b"));
    return labels(read_all(*load_idx(folders / "images", folders / "labels")));
  }

  /// The labels of a are as given; those of b are used instead, and the log says why.
  void falls_over(const std::string& labels, const std::string& reason) const {
    folder_.write("a/labels", labels);
    EXPECT_EQ(load(), (Labels{3, 5}));
    EXPECT_THAT(log_text(),
                HasEvent("mirror_skipped",
                         {{"mirror", path("a/labels")}, {"reason", HasSubstr(reason)}, {"next", path("b/labels")}}));
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string log_text() const { return read_file(folder_ / "log"); }

  const TempFolder folder_;
};

TEST_F(MirrorsTest, SoundFirstMirrorIsUsedAlone) {
  std::filesystem::remove_all(folder_ / "b");
  EXPECT_EQ(load(), (Labels{3, 4}));
  EXPECT_EQ(log_text(), "");
}

TEST_F(MirrorsTest, PlacesAreTriedInTheOrderGiven) {
  std::vector<std::string> tried;
  const auto read = [&](const std::filesystem::path& place) {
    tried.push_back(place);
    return place == "c" ? 7 : throw IoError("no " + place.string());
  };
  EXPECT_EQ(read_any(Mirrors::parse("b,a,c,d"), read), 7);
  EXPECT_EQ(tried, (std::vector<std::string>{"b", "a", "c"}));
}

TEST_F(MirrorsTest, Missing) {
  std::filesystem::remove(folder_ / "a/labels");
  EXPECT_EQ(load(), (Labels{3, 5}));
  EXPECT_THAT(log_text(),
              HasEvent("mirror_skipped", {{"reason", HasSubstr("No such file")}, {"next", path("b/labels")}}));
}

TEST_F(MirrorsTest, AWholeFolderIsMissing) {
  std::filesystem::remove_all(folder_ / "a");
  EXPECT_EQ(load(), (Labels{3, 5}));
  EXPECT_THAT(log_text(), HasEvent("mirror_skipped", {{"next", path("b/images")}}));
}

TEST_F(MirrorsTest, Unreadable) {
  std::filesystem::remove(folder_ / "a/labels");
  std::filesystem::create_directory(folder_ / "a/labels");  // nobody may read it, not even root
  EXPECT_EQ(load(), (Labels{3, 5}));
  EXPECT_THAT(log_text(), HasEvent("mirror_skipped", {{"reason", HasSubstr("not a regular file")}}));
}

TEST_F(MirrorsTest, AReadThatFails) {
  std::filesystem::remove(folder_ / "a/labels");
  std::filesystem::create_symlink("/proc/self/mem", folder_ / "a/labels");  // its first bytes are no memory of ours
  EXPECT_EQ(load(), (Labels{3, 5}));
  EXPECT_THAT(log_text(), HasEvent("mirror_skipped", {{"reason", HasSubstr("Input/output error")}}));
}

TEST_F(MirrorsTest, TruncatedGzip) {
  const std::string packed = gzipped(labels_with(4));
  falls_over(packed.substr(0, packed.size() - 5), "cut short");
}

TEST_F(MirrorsTest, SkipsAFileWithAWrongChecksum) {
  constexpr std::size_t kTrailer = 8;  // CRC-32, then the length
  std::string packed = gzipped(labels_with(4));
  packed[packed.size() - kTrailer] ^= 1;
  falls_over(packed, "incorrect data check");
}

TEST_F(MirrorsTest, TruncatedPlainFile) { falls_over(labels_with(4).substr(0, 9), "truncated"); }

TEST_F(MirrorsTest, MalformedHeader) { falls_over("something else", "not an IDX file"); }

TEST_F(MirrorsTest, SkipsImagesThatDoNotMatchTheLabels) {
  std::string one = kTwoImages;
  one[7] = 1;
  folder_.write("a/images", one.substr(0, 17));
  EXPECT_EQ(load(), (Labels{3, 4}));
  EXPECT_THAT(log_text(), HasEvent("mirror_skipped",
                                   {{"reason", HasSubstr("do not belong together")}, {"next", path("b/images")}}));
}

TEST_F(MirrorsTest, AllDamagedReportsTheReasonOfEach) {
  folder_.write("a/labels", "something else");
  std::filesystem::remove(folder_ / "b/labels");
  EXPECT_FAILS(load(), Corrupt, "none of 2 mirrors", "(1) " + path("a/labels"), "not an IDX file", "(2) cannot open",
               path("b/labels"), "No such file");
  std::filesystem::remove(folder_ / "a/labels");
  EXPECT_FAILS(load(), IoError, "none of 2 mirrors", "(1) cannot open " + path("a/labels"), "(2) cannot open");
}

TEST_F(MirrorsTest, ASinglePlaceFailsInItsOwnWords) {
  EXPECT_FAILS(load_idx(path("a/none"), path("a/labels")), IoError, "cannot open " + path("a/none"));
  EXPECT_THAT(log_text(), Not(HasEvent("mirror_skipped")));
}

TEST_F(MirrorsTest, InvalidArgumentIsRethrownAtOnce) {
  int calls = 0;
  const auto read = [&](const std::filesystem::path&) -> int {
    ++calls;
    throw InvalidArgument("no such column");
  };
  EXPECT_FAILS(read_any(Mirrors::parse("a,b"), read), InvalidArgument, "no such column");
  EXPECT_EQ(calls, 1);
}

TEST_F(MirrorsTest, CsvFallsBackToTheNextMirror) {
  folder_.write("a/table.csv", "1,2,0\n3,x,1\n");
  folder_.write("b/table.csv.gz", gzipped("1,2,0\n3,4,1\n"));
  const auto table = load_csv(Mirrors::parse(path("a") + "," + path("b")) / "table.csv");
  EXPECT_EQ(features(read_all(*table)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THAT(log_text(),
              HasEvent("mirror_skipped", {{"reason", HasSubstr("line 2, column 2")}, {"next", path("b/table.csv")}}));
}

TEST_F(MirrorsTest, FashionMnistThatIsNowhereSaysHowToGetIt) {
  EXPECT_FAILS(load_fashion_mnist(Mirrors::parse(path("a") + "," + path("b"))), IoError, "(1)", "(2)",
               "dataset-fashion-mnist");
}

TEST(ParsingMirrors, CommasSeparate) {
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(Mirrors::parse("/x").places(), (Paths{"/x"}));
  EXPECT_EQ(Mirrors::parse("/x, y,z/").places(), (Paths{"/x", " y", "z/"}));
  EXPECT_EQ((Mirrors::parse("a,b") / "f").places(), (Paths{"a/f", "b/f"}));
  for (const std::string bad : {"", ",", "a,", ",a", "a,,b"}) {
    EXPECT_FAILS(Mirrors::parse(bad), InvalidArgument, "'" + bad + "'", "empty part");
  }
}

}  // namespace
}  // namespace trireme::data
