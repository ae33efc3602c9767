#include "trireme/tables.h"

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

class TableFile : public ::testing::Test {
 protected:
  Table load(const std::string& text, const TableOptions& options = {}) {
    return load_table(folder_.write("table.csv", text), options);
  }
  DatasetPtr load_like(const std::string& text, const TableEncoding& encoding) {
    return load_table(folder_.write("other.csv", text), encoding);
  }

  static Floats numbers(const Dataset& samples) {
    const Batch batch = read_all(samples);
    const auto values = batch.values<float>("numbers");
    return {values.begin(), values.end()};
  }
  static Labels whole(const Dataset& samples, std::string_view field) {
    const Batch batch = read_all(samples);
    const auto values = batch.values<std::int64_t>(field);
    return {values.begin(), values.end()};
  }

  TempFolder folder_;
};

TEST_F(TableFile, NumbersCategoriesAndAQuantity) {
  const Table table = load("airport,distance,delay\nMDW,405,14\nPHX,370,-11\nMDW,389,5.5\n");
  EXPECT_EQ(table.samples->schema().describe(), "numbers 1, categories 1 of 3 classes, delay");
  EXPECT_EQ(numbers(*table.samples), (Floats{405, 370, 389}));
  EXPECT_EQ(whole(*table.samples, "categories"), (Labels{1, 2, 1}));  // 0 is for the missing
  EXPECT_EQ(table.encoding.category_names(), Names{"airport"});
  EXPECT_TRUE(table.notes.empty());
}

TEST_F(TableFile, TargetsByNamePositionAndCondition) {
  const std::string text = "delay,weather,distance\n14,rain,405\n-11,sun,370\n20,rain,389\n";
  EXPECT_EQ(whole(*load(text, {.targets = {"weather"}}).samples, "weather"), (Labels{0, 1, 0}));
  EXPECT_EQ(whole(*load(text, {.targets = {"1"}}).samples, "weather"), (Labels{0, 1, 0}));
  const Table late = load(text, {.targets = {"delay > 13"}});
  EXPECT_EQ(whole(*late.samples, "delay>13"), (Labels{1, 0, 1}));
  const Field& target = late.samples->schema()[late.samples->schema().index_of("delay>13")];
  EXPECT_EQ(target.class_names, (Names{"delay<=13", "delay>13"}));
  EXPECT_EQ(numbers(*late.samples), (Floats{405, 370, 389}));  // the delay itself is no input
  EXPECT_EQ(whole(*load(text, {.targets = {"weather==sun"}}).samples, "weather==sun"), (Labels{0, 1, 0}));
  EXPECT_EQ(load(text, {.targets = {"delay", "weather"}}).samples->schema().with(Role::kTarget).size(), 2u);
}

TEST_F(TableFile, WrongTargetsAreRefused) {
  const std::string text = "delay,weather,distance\n14,rain,405\n-11,sun,370\n";
  EXPECT_FAILS(load(text, {.targets = {"dilay"}}), InvalidArgument, "no column 'dilay'", "did you mean 'delay'",
               "delay, weather, distance");
  EXPECT_FAILS(load(text, {.targets = {"3"}}), InvalidArgument, "no column '3'");
  EXPECT_FAILS(load(text, {.targets = {"delay>"}}), InvalidArgument, "compares with nothing");
  EXPECT_FAILS(load(text, {.targets = {"weather>sun"}}), InvalidArgument, "> compares numbers");
  EXPECT_FAILS(load(text, {.targets = {"weather>3"}}), InvalidArgument, "column 'weather' has other values");
  EXPECT_FAILS(load(text, {.targets = {"delay", "delay"}}), InvalidArgument, "a target twice");
  EXPECT_FAILS(load(text, {.targets = {"delay"}, .ignore = {"delay"}}), InvalidArgument, "is a target, and ignored");
}

TEST_F(TableFile, WholeNumbersFromZeroAreClassesUnlessTheyAreANumber) {
  const std::string text = "x,y\n1.5,0\n2.5,2\n3.5,1\n";
  EXPECT_EQ(load(text).samples->schema()[1].classes, Labels{3});
  EXPECT_EQ(load(text, {.classes = 5}).samples->schema()[1].classes, Labels{5});
  EXPECT_TRUE(load(text, {.types = {{"y", ColumnKind::kNumber}}}).samples->schema()[1].classes.empty());
  EXPECT_FAILS(load(text, {.classes = 2}), InvalidArgument, "class 2, expected 0 to 1");
  EXPECT_TRUE(load("x,y\n1,-1\n2,2\n").samples->schema()[1].classes.empty());
}

TEST_F(TableFile, MissingNumbersAreTheMeanAndSaySo) {
  const Table table = load("wind,kind,y\n1,a,0.5\nNA,,1.5\n3,b,2.5\n");
  EXPECT_EQ(table.encoding.number_names(), (Names{"wind", "wind:missing"}));
  EXPECT_EQ(numbers(*table.samples), (Floats{1, 0, 2, 1, 3, 0}));
  EXPECT_EQ(whole(*table.samples, "categories"), (Labels{1, 0, 2}));
}

TEST_F(TableFile, RowsWithoutATargetAreLeftOutWithANote) {
  const Table table = load("x,y\n1,0.5\n2,\n3,NaN\n4,1.5\n");
  EXPECT_EQ(numbers(*table.samples), (Floats{1, 4}));
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_THAT(table.notes[0], ::testing::HasSubstr("2 rows of 4"));
}

TEST_F(TableFile, DatesBecomeDaysAndPlacesInTheirCycles) {
  const Table table = load("date,y\n2000-01-01,0.5\n2000-01-03,1.5\n");
  EXPECT_EQ(table.encoding.columns[0].date, "YYYY-MM-DD");
  EXPECT_EQ(table.encoding.number_names(),
            (Names{"date:days", "date:year_sin", "date:year_cos", "date:week_sin", "date:week_cos"}));
  const Floats values = numbers(*table.samples);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[5], 2);
  EXPECT_NEAR(values[2], 1, 1e-6);  // the cosine of the year's begin
  EXPECT_NEAR(values[9], 1, 1e-6);  // a Monday
}

TEST_F(TableFile, DatesAreFoundInManyFormats) {
  const auto format = [&](const std::string& first, const std::string& second, const std::string& name = "date") {
    const Table table = load(name + ",y\n" + first + ",0.5\n" + second + ",1.5\n");
    return table.encoding.columns[0].date + (table.encoding.columns[0].time ? " with time" : "");
  };
  EXPECT_EQ(format("2012/01/31", "2012/02/01"), "YYYY/MM/DD");
  EXPECT_EQ(format("1/31/2012", "2/1/2012"), "MM/DD/YYYY");
  EXPECT_EQ(format("1/2/2012", "31/1/2012"), "DD/MM/YYYY");
  EXPECT_EQ(format("31.01.2012", "01.02.2012"), "DD.MM.YYYY");
  EXPECT_EQ(format("2012-01-31T10:00:00Z", "2012-01-31 10:30"), "YYYY-MM-DD with time");
  EXPECT_EQ(format("2012-01-31T10:00:00+02:00", "2012-01-31T10:00:00.25Z"), "YYYY-MM-DD with time");
  EXPECT_EQ(format("20120131", "20120201"), "YYYYMMDD");
  EXPECT_EQ(format("01010001", "01312359"), "MMDDhhmm with time");
  EXPECT_EQ(format("1260759144", "1260759179", "timestamp"), "seconds since 1970 with time");
  EXPECT_EQ(format("1260759144000", "1260759179000", "timestamp"), "milliseconds since 1970 with time");
  EXPECT_EQ(format("10:45", "23:59:59"), "hh:mm with time");
  EXPECT_EQ(format("20120131", "20120201", "amount"), "");  // bare digits are a date only if the name says so
  EXPECT_EQ(format("2012-02-30", "2012-01-01"), "");        // there is no such day
}

TEST_F(TableFile, NumbersThatNameThingsAreCategories) {
  const Table table = load("userId,movie_id,paid,rating\n1,31,1,2.5\n10,31,2,3\n2,1029,3,4\n");
  EXPECT_EQ(table.encoding.category_names(), (Names{"userId", "movie_id"}));
  EXPECT_EQ(table.encoding.columns[0].vocabulary, (Names{"1", "2", "10"}));  // in the order of numbers
  EXPECT_EQ(table.encoding.number_names(), Names{"paid"});
}

TEST_F(TableFile, KindsCanBeGiven) {
  const std::string text = "zip,note,y\n101,a,0.5\n102,b,1.5\n";
  const Table table = load(text, {.ignore = {"note"}, .types = {{"zip", ColumnKind::kCategory}}});
  EXPECT_EQ(table.samples->schema().describe(), "categories 1 of 3 classes, y");
  EXPECT_FAILS(load(text, {.types = {{"note", ColumnKind::kNumber}}}), Corrupt, "line 2, column 2 ('note')",
               "expected a finite number");
  EXPECT_FAILS(load(text, {.types = {{"note", ColumnKind::kDate}}}), Corrupt, "line 2, column 2", "expected a date");
}

TEST_F(TableFile, FreeTextIsLeftOutWithANote) {
  std::string text = "title,x,y\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("title {},{},{}.5\n", i, i, i);
  const Table table = load(text);
  EXPECT_EQ(table.samples->schema().describe(), "numbers 1, y");
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_THAT(table.notes[0], ::testing::HasSubstr("'title' is left out: it is free text, with 100 different values"));
  EXPECT_EQ(load(text, {.types = {{"title", ColumnKind::kCategory}}}).encoding.category_names(), Names{"title"});
  EXPECT_FAILS(load(text, {.targets = {"title"}}), InvalidArgument, "target 'title' is free text");
}

TEST_F(TableFile, SomethingElseAmongNumbersIsDamage) {
  std::string text = "x,y\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("{},{}.5\n", i == 30 ? "oops" : std::to_string(i), i);
  EXPECT_FAILS(load(text), Corrupt, "line 32, column 1 ('x')", "'oops'", "expected a number, as 49 others");
  EXPECT_FAILS(load("x,y\n1,0.5\ninf,1.5\n"), Corrupt, "line 3, column 1 ('x')", "not finite");
  EXPECT_FAILS(load("x,y\n1,0.5\n1e999,1.5\n"), Corrupt, "line 3", "beyond the range");
}

TEST_F(TableFile, RaggedEmptyAndUnclosedFilesAreRefused) {
  EXPECT_FAILS(load(""), Corrupt, "table.csv", "empty");
  EXPECT_FAILS(load("x,y\n"), Corrupt, "no rows");
  EXPECT_FAILS(load("x,y\n1,2,3\n"), Corrupt, "line 2", "expected 2 columns, found 3");
  EXPECT_FAILS(load("x,y\n1,\"2\n"), Corrupt, "line 2", "closing quote");
  EXPECT_FAILS(load("x\n1\n2\n"), InvalidArgument, "no column that a model could use");
  EXPECT_FAILS(load_table(folder_ / "absent.csv"), IoError, "absent.csv");
}

TEST_F(TableFile, MoreThanTheMemoryAllowedIsRefused) {
  EXPECT_FAILS(load("x,y\n1,0.5\n2,1.5\n", {.max_bytes = 20}), InvalidArgument, "line 3", "more than 20 bytes");
  EXPECT_FAILS(load(std::string(100, '1'), {.max_bytes = 20}), Corrupt, "longer than the 20 bytes");
}

TEST_F(TableFile, QuotedTextTabsAndPackedFiles) {
  const Table tabs = load("place\tx\ty\n\"New York, \"\"NY\"\"\"\t1\t0.5\nRome\t2\t1.5\n");
  EXPECT_EQ(tabs.encoding.separator, '\t');
  EXPECT_EQ(tabs.encoding.columns[0].vocabulary, (Names{"New York, \"NY\"", "Rome"}));
  EXPECT_EQ(load("a;b;y\n1,5;x;0.5\n2,5;y;1.5\n").encoding.separator, ';');
  const Table packed = load_table(folder_.write("packed.csv.gz", gzipped("x,y\n1,0.5\n")));
  EXPECT_EQ(numbers(*packed.samples), Floats{1});
}

TEST_F(TableFile, AFileWithoutAHeaderNamesColumnsByPosition) {
  const Table table = load("1,rain,0.5\n2,sun,1.5\n", {.targets = {"-1"}});
  EXPECT_EQ(table.encoding.columns[1].name, "column 1");
  EXPECT_EQ(numbers(*load_like("3,fog,0\n", table.encoding)), Floats{3});
  EXPECT_FAILS(load_like("3,fog,0,7\n", table.encoding), InvalidArgument, "4 columns and no header, expected 3");
}

TEST_F(TableFile, PartsOfATableAreOne) {
  folder_.write("part-1.csv", "x,y\n1,0.5\n");
  folder_.write("part-0.csv", "x,y\n0,0.5\n");
  EXPECT_EQ(numbers(*load_table(folder_ / "part-*.csv").samples), (Floats{0, 1}));
  folder_.write("part-2.csv", "x,z\n2,0.5\n");
  EXPECT_FAILS(load_table(folder_ / "part-*.csv"), Corrupt, "part-2.csv, line 1", "another header");
}

TEST_F(TableFile, AnotherFileIsEncodedTheSame) {
  const Table table = load("place,wind,date,y\nRome,1,2012-01-01,a\nOslo,,2012-01-02,b\n");
  const DatasetPtr same = load_like("y,date,extra,wind,place\nb,2012-01-02,7,,Oslo\n", table.encoding);
  EXPECT_EQ(whole(*same, "categories"), (Labels{1}));
  EXPECT_EQ(whole(*same, "y"), (Labels{1}));
  const Floats both = numbers(*table.samples);
  EXPECT_EQ(numbers(*same), Floats(both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2), both.end()));
  // Unknown words are class 0; rows to predict have no target.
  const DatasetPtr rows = load_like("place,wind,date\nParis,2,\n", table.encoding);
  EXPECT_EQ(whole(*rows, "categories"), (Labels{0}));
  EXPECT_FALSE(rows->schema().find("y"));
  EXPECT_FAILS(load_like("place,wind,y\nRome,1,a\n", table.encoding), InvalidArgument, "no column 'date'");
  EXPECT_FAILS(load_like("place,wind,date,y\nRome,1,2012-01-01,c\n", table.encoding), Corrupt, "line 2, column 4",
               "'c' is none of the 2 classes");
  EXPECT_FAILS(load_like("place,wind,date,y\nRome,much,2012-01-01,a\n", table.encoding), Corrupt, "line 2, column 2");
}

TEST_F(TableFile, MirrorsAreTriedInOrder) {
  folder_.write("good.csv", "x,y\n1,0.5\n");
  folder_.write("bad.csv", "x,y\n1,0.5\n1\n");
  const Table table =
      load_table(Mirrors::parse((folder_ / "bad.csv").string() + "," + (folder_ / "good.csv").string()));
  EXPECT_EQ(numbers(*table.samples), Floats{1});
}

}  // namespace
}  // namespace trireme::data
