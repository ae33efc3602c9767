#include "trireme/sources.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

class Csv : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> load(const std::string& text, const CsvOptions& options = {}) {
    return load_csv(folder_.write("table.csv", text), options);
  }

  TempFolder folder_;
  std::string path_ = (folder_.path() / "table.csv").string();
};

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;

TEST_F(Csv, ReadsATableWithoutHeader) {
  const auto dataset = load("1,2.5,0\n-3e1,+4,2\n");
  EXPECT_EQ(dataset->size(), 2u);
  EXPECT_EQ(classes(*dataset), 3);
  EXPECT_EQ(sample_shape(*dataset), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(dataset->describe(), path_ + ": 2 samples of features 2, label of 3 classes");
  const Batch batch = read_all(*dataset);
  EXPECT_EQ(features(batch), (Floats{1, 2.5, -30, 4}));
  EXPECT_EQ(labels(batch), (Labels{0, 2}));
}

TEST_F(Csv, FindsTheHeaderAndTheLabelByName) {
  const auto dataset = load("kind,width,\"height, in cm\"\n1,2,3\n0,5,6\n", {.label_column = "kind"});
  EXPECT_EQ(features(read_all(*dataset)), (Floats{2, 3, 5, 6}));
  EXPECT_EQ(labels(read_all(*dataset)), (Labels{1, 0}));
}

TEST_F(Csv, FindsTheLabelByPosition) {
  for (const std::int64_t column : {1, -2}) {
    const auto dataset = load("7,1,8\n9,0,10\n", {.label_column = column});
    EXPECT_EQ(features(read_all(*dataset)), (Floats{7, 8, 9, 10}));
    EXPECT_EQ(labels(read_all(*dataset)), (Labels{1, 0}));
  }
}

TEST_F(Csv, NumbersCanBeAHeaderIfSaidSo) {
  EXPECT_EQ(load("0,1,2\n5,6,1\n", {.header = CsvHeader::kPresent})->size(), 1u);
  EXPECT_EQ(load("0,1,2\n5,6,1\n")->size(), 2u);
}

TEST_F(Csv, TakesQuotesBlanksLineEndsAndGzip) {
  const Floats expected{1, 2, 3, 4};
  EXPECT_EQ(features(read_all(*load("1,2,0\r\n3,4,1\r\n"))), expected);
  EXPECT_EQ(features(read_all(*load("1,2,0\r3,4,1"))), expected);
  EXPECT_EQ(features(read_all(*load("\n \"1\" , 2 ,0\n\n  \n3,\"4\",\"1\""))), expected);
  EXPECT_EQ(features(read_all(*load("\xEF\xBB\xBF"
                                    "1,2,0\n3,4,1\n"))),
            expected);
  EXPECT_EQ(features(read_all(*load(gzipped("1,2,0\n3,4,1\n")))), expected);
  EXPECT_EQ(features(read_all(*load("1;2;0\n3;4;1\n", {.separator = ';'}))), expected);
  EXPECT_EQ(features(read_all(*load("1\t2\t0\n3\t4\t1\n", {.separator = '\t'}))), expected);
  EXPECT_EQ(features(read_all(*load("\"a\"\"b\",\"two\nlines\",c\n1,2,0\n3,4,1\n", {.label_column = "c"}))), expected);
}

TEST_F(Csv, RowsAcrossBufferBorders) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + ",0.5," + std::to_string(i % 7) + "\r\n";
  const Batch batch = read_all(*load(text));
  ASSERT_EQ(batch.size(), 50000u);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(batch.values<float>(0)[2 * i], static_cast<float>(i));
    ASSERT_EQ(batch.values<std::int64_t>(1)[i], static_cast<std::int64_t>(i % 7));
  }
}

TEST_F(Csv, GivesSamplesAShape) {
  EXPECT_EQ(sample_shape(*load("1,2,3,4,0\n", {.shape = {1, 2, 2}})), (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_FAILS(load("1,2,3,0\n", {.shape = {1, 2, 2}}), InvalidArgument, path_, "3 features", "1x2x2");
}

TEST_F(Csv, MissingAndEmpty) {
  EXPECT_FAILS(load_csv(folder_.path() / "none.csv"), IoError, "none.csv", "No such file");
  EXPECT_FAILS(load(""), Corrupt, path_, "empty");
  EXPECT_FAILS(load("\r\n \n"), Corrupt, path_, "empty");
  EXPECT_FAILS(load("a,b\n"), Corrupt, path_, "only a header");
}

TEST_F(Csv, RaggedRows) {
  EXPECT_FAILS(load("a,b,c\n1,2,0\n1,2\n"), Corrupt, path_, "line 3", "expected 3 columns as in line 1, found 2");
  EXPECT_FAILS(load("1,2,0\n1,2,0,\n"), Corrupt, path_, "line 2", "found 4");
}

TEST_F(Csv, NotANumber) {
  EXPECT_FAILS(load("a,b,c\n1,2,0\n1,x7,0\n"), Corrupt, path_, "line 3", "column 2 ('b')", "expected a finite number",
               "'x7'");
  EXPECT_FAILS(load("1,2,0\n1,,0\n"), Corrupt, path_, "line 2", "column 2", "empty field");
  EXPECT_FAILS(load("1,2 3,0\n"), Corrupt, path_, "line 1", "column 2", "'2 3'");
  EXPECT_FAILS(load("1,+-2,0\n"), Corrupt, path_, "'+-2'");
  EXPECT_FAILS(load("1,0x10,0\n"), Corrupt, path_, "'0x10'");
}

TEST_F(Csv, PartialHeaderIsCorrupt) {
  EXPECT_FAILS(load("1,two,0\n3,4,1\n"), Corrupt, path_, "line 1", "column 2", "'two'", "header");
  EXPECT_FAILS(load("nan,nan,nan\n3,4,1\n"), Corrupt, path_, "line 1", "not finite");
}

TEST_F(Csv, NotFinite) {
  for (const std::string bad : {"nan", "inf", "-inf", "NaN", "Infinity"}) {
    EXPECT_FAILS(load("1,2,0\n" + bad + ",2,0\n"), Corrupt, path_, "line 2", "column 1", "not finite", bad);
  }
  for (const std::string bad : {"1e39", "-1e39", "1e999"}) {
    EXPECT_FAILS(load("1,2,0\n" + bad + ",2,0\n"), Corrupt, path_, "line 2", "column 1", "beyond the range", bad);
  }
}

TEST_F(Csv, BadLabels) {
  for (const std::string bad : {"-1", "0.5", "3", "1e30"}) {
    EXPECT_FAILS(load("1,2,0\n1,2," + bad + "\n", {.classes = 3}), Corrupt, path_, "line 2", "column 3", "0 to 2", bad);
  }
  EXPECT_FAILS(load("1,70000\n"), Corrupt, path_, "line 1", "column 2", "0 to 65535");
}

TEST_F(Csv, Quotes) {
  EXPECT_FAILS(load("1,2,0\n1,\"2,0\n"), Corrupt, path_, "line 2, column 2", "closing quote", "end of the file");
  EXPECT_FAILS(load("1,\"2\"3,0\n"), Corrupt, path_, "line 1, column 2", "after the closing quote");
}

TEST_F(Csv, LabelColumnThatIsNotThere) {
  EXPECT_FAILS(load("width,kind\n1,2\n", {.label_column = "kinds"}), InvalidArgument, path_, "'kinds'",
               "did you mean 'kind'?");
  EXPECT_FAILS(load("1,2\n", {.label_column = "kind"}), InvalidArgument, path_, "no header", "'kind'");
  EXPECT_FAILS(load("1,2\n", {.label_column = 2}), InvalidArgument, path_, "label column 2", "-2 to 1");
  EXPECT_FAILS(load("1;2\n", {}), Corrupt, path_, "line 1", "one column", "separator ','");
}

TEST_F(Csv, BadOptions) {
  EXPECT_FAILS(load("1,2\n", {.separator = '.'}), InvalidArgument, "separator");
  EXPECT_FAILS(load("1,2\n", {.classes = -1}), InvalidArgument, "classes -1");
}

TEST_F(Csv, LimitsBytesFieldsAndColumns) {
  EXPECT_FAILS(load(gzipped(std::string(1 << 20, '\n')), {.max_bytes = 100000}), Corrupt, path_, "100000 bytes");
  EXPECT_FAILS(load("\"" + std::string(1 << 20, '1')), Corrupt, path_, "line 1, column 1", "more than 65536 bytes");
  EXPECT_FAILS(load(std::string(1 << 21, ',')), Corrupt, path_, "line 1", "more than 1048576 columns");
  EXPECT_FAILS(load(gzipped("1,2,0\n").substr(0, 20)), Corrupt, path_, "cut short");
}

}  // namespace
}  // namespace trireme::data
