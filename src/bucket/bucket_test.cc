#include "bucket/bucket.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"

namespace muster::bucket {
namespace {

namespace fs = std::filesystem;

TEST(BucketNameTest, FollowsGooglesRulesButForShortNames) {
  const std::vector<std::string> good = {"b", "ab", "abc", "my-bucket_1", "0ab", "example.com",
                                         "a.b", "google-mirror", std::string(63, 'a'),
                                         // 222 bytes in parts of at most 63.
                                         std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                                             std::string(63, 'c') + "." + std::string(30, 'd')};
  for (const std::string& name : good) EXPECT_TRUE(CheckBucketName(name)) << name;
  const std::vector<std::string> bad = {"",
                                        "Abc",
                                        "a b",
                                        "-abc",
                                        "abc-",
                                        "_abc",
                                        "abc.",
                                        ".abc",
                                        "a..b",
                                        "..",
                                        "...",
                                        "192.168.5.4",
                                        "a/b",
                                        "ab\xC3\xA9",
                                        std::string(64, 'a'),
                                        std::string(64, 'a') + ".com",
                                        std::string("ab\0c", 4),
                                        std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                                            std::string(63, 'c') + "." + std::string(31, 'd')};
  for (const std::string& name : bad) {
    const Status status = CheckBucketName(name);
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument) << name;
  }
}

TEST(GsUriTest, Parses) {
  EXPECT_EQ(*ParseGsUri("gs://b"), (GsUri{"b", ""}));
  EXPECT_EQ(*ParseGsUri("gs://bkt"), (GsUri{"bkt", ""}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/"), (GsUri{"bkt", ""}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/a"), (GsUri{"bkt", "a"}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/a/b/"), (GsUri{"bkt", "a/b/"}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/aiplatform-custom-job-2026-11-20-17:36:26.217/model/"),
            (GsUri{"bkt", "aiplatform-custom-job-2026-11-20-17:36:26.217/model/"}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/a b/%20/#?/ä漢😀"), (GsUri{"bkt", "a b/%20/#?/ä漢😀"}));
  EXPECT_EQ(*ParseGsUri("gs://bkt/.hidden/..."), (GsUri{"bkt", ".hidden/..."}));
}

TEST(GsUriTest, RunsOfSlashesCountAsOne) {
  EXPECT_EQ(*ParseGsUri("gs://bkt//a///b//"), (GsUri{"bkt", "a/b/"}));
  EXPECT_EQ(*ParseGsUri("gs://bkt//"), (GsUri{"bkt", ""}));
}

TEST(GsUriTest, RefusesWhatNoFileCanBe) {
  const std::vector<std::string> bad = {"",
                                        "bkt/a",
                                        "/bkt/a",
                                        "s3://bkt/a",
                                        "GS://bkt/a",
                                        "gs:/bkt/a",
                                        "gs://",
                                        "gs:///a",
                                        "gs://../a",
                                        "gs://bkt/..",
                                        "gs://bkt/../other",
                                        "gs://bkt/a/../b",
                                        "gs://bkt/a/./b",
                                        "gs://bkt/.",
                                        "gs://bkt/a/..",
                                        "gs://bkt//../x",
                                        "gs://bkt/a\nb",
                                        "gs://bkt/a\rb",
                                        std::string("gs://bkt/a\0b", 12),
                                        "gs://bkt/\xff",
                                        "gs://bkt/\xC0\xAF",
                                        "gs://bkt/\xED\xA0\x80",
                                        "gs://bkt/" + std::string(256, 'x')};
  for (const std::string& uri : bad) {
    const auto parsed = ParseGsUri(uri);
    ASSERT_FALSE(parsed) << uri;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument) << uri;
    EXPECT_FALSE(MountPath(uri)) << uri;
  }
}

TEST(GsUriTest, CountsBytes) {
  std::string longest;
  while (longest.size() + 128 <= 1024) longest += std::string(127, 'x') + "/";
  ASSERT_EQ(longest.size(), 1024u);
  EXPECT_TRUE(ParseGsUri("gs://bkt/" + longest));
  EXPECT_FALSE(ParseGsUri("gs://bkt/" + longest + "x"));
  EXPECT_TRUE(ParseGsUri("gs://bkt/" + std::string(255, 'x')));
}

TEST(MountPathTest, KeepsTheTrailingSlash) {
  EXPECT_EQ(*MountPath("gs://bkt/a/"), "/gcs/bkt/a/");
  EXPECT_EQ(*MountPath("gs://bkt/a"), "/gcs/bkt/a");
  EXPECT_EQ(*MountPath("gs://bkt"), "/gcs/bkt");
  EXPECT_EQ(*MountPath("gs://bkt/"), "/gcs/bkt/");
  EXPECT_EQ(*MountPath("gs://bkt//"), "/gcs/bkt/");
}

class DirectoriesTest : public testing::Test {
 protected:
  DirectoriesTest() { fs::create_directories(temporary_); }
  ~DirectoriesTest() override { fs::remove_all(temporary_); }

  const fs::path temporary_ = fs::temp_directory_path() / ("muster-bucket-" + RandomHex(12));
};

TEST_F(DirectoriesTest, HostPathIsBelowTheBucketsDirectory) {
  const BucketDirectories buckets(temporary_ / "buckets");
  EXPECT_EQ(*buckets.HostPath("gs://bkt/a b/c:d/"), (temporary_ / "buckets/bkt/a b/c:d/").string());
  EXPECT_EQ(*buckets.HostPath("gs://bkt"), (temporary_ / "buckets/bkt").string());
  EXPECT_EQ(*buckets.HostPath("gs://bkt/"), (temporary_ / "buckets/bkt/").string());
  EXPECT_TRUE(fs::is_directory(temporary_ / "buckets/bkt"));
  EXPECT_FALSE(buckets.HostPath("gs://bkt/../x"));
  EXPECT_FALSE(buckets.DirectoryOf(".."));
}

TEST_F(DirectoriesTest, BucketsMayLieElsewhere) {
  const BucketDirectories buckets(temporary_ / "buckets", {{"far", temporary_ / "else/where/"}});
  EXPECT_EQ(*buckets.HostPath("gs://far/a"), (temporary_ / "else/where/a").string());
  EXPECT_EQ(*buckets.HostPath("gs://far"), (temporary_ / "else/where").string());
  EXPECT_TRUE(fs::is_directory(temporary_ / "else/where"));
  EXPECT_FALSE(fs::exists(temporary_ / "buckets/far"));
}

TEST_F(DirectoriesTest, AllListsBucketsOnly) {
  const BucketDirectories buckets(temporary_ / "buckets", {{"far", temporary_ / "far"}});
  EXPECT_EQ(buckets.All().size(), 1u);  // root is not there yet
  ASSERT_TRUE(buckets.DirectoryOf("near"));
  ASSERT_TRUE(MakeDirectories(temporary_ / "buckets/Not A Bucket"));
  ASSERT_TRUE(MakeDirectories(temporary_ / "buckets/far"));
  ASSERT_TRUE(WriteFileAtomic(temporary_ / "buckets/file", ""));
  const std::map<std::string, fs::path> expected = {{"far", temporary_ / "far"},
                                                    {"near", temporary_ / "buckets/near"}};
  EXPECT_EQ(buckets.All(), expected);
}

TEST_F(DirectoriesTest, ErrorsNameThePath) {
  ASSERT_TRUE(WriteFileAtomic(temporary_ / "file", ""));
  const BucketDirectories buckets(temporary_ / "file");
  const auto directory = buckets.DirectoryOf("bkt");
  ASSERT_FALSE(directory);
  EXPECT_NE(directory.error().message.find("file/bkt"), std::string::npos);
}

// Object names as an adversary would write them.
rc::Gen<std::string> HostileObject() {
  const auto piece =
      rc::gen::element<std::string>("..", ".", "/", "//", "a", "b c", "%2e%2e", "\\", "ä", "\xff",
                                    "...", ":", "~", std::string(1, '\0'));
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string object;
                        for (const std::string& part : pieces) object += part;
                        return object;
                      });
}

TEST_F(DirectoriesTest, NoNameLeavesItsBucket) {
  const BucketDirectories buckets(temporary_);
  const std::string inside = (temporary_ / "bkt").string();
  EXPECT_TRUE(rc::check("host paths stay inside", [&] {
    const std::string object = *HostileObject();
    const auto path = buckets.HostPath("gs://bkt/" + object);
    RC_CLASSIFY(path.has_value());
    if (!path) return;
    const std::string normal = fs::path(*path).lexically_normal().string();
    RC_ASSERT(normal == inside || normal.starts_with(inside + "/"));
    RC_ASSERT(normal == *path);  // nothing was left to normalize
    if (object.ends_with('/')) RC_ASSERT(path->ends_with('/'));
    RC_ASSERT("/gcs" + path->substr(temporary_.string().size()) ==
              *MountPath("gs://bkt/" + object));
  }));
}

TEST(GsUriTest, PlainNamesComeBackAsTheyWere) {
  EXPECT_TRUE(rc::check("parse keeps the object", [] {
    const auto segment = rc::gen::suchThat(
        rc::gen::nonEmpty(rc::gen::container<std::string>(
            rc::gen::oneOf(rc::gen::inRange<char>(' ', '/'), rc::gen::inRange<char>('0', 0x7f)))),
        [](const std::string& text) { return text != "." && text != ".."; });
    const auto segments = *rc::gen::container<std::vector<std::string>>(segment);
    std::string object;
    for (const std::string& text : segments) object += (object.empty() ? "" : "/") + text;
    RC_PRE(object.size() <= 1024);
    const auto parsed = ParseGsUri("gs://bkt/" + object);
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(parsed->object == object);
  }));
}

}  // namespace
}  // namespace muster::bucket
