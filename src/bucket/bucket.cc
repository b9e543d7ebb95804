#include "bucket/bucket.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/utf8.h"

namespace muster::bucket {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kScheme = "gs://";
constexpr size_t kComponentBytesMax = 63;
constexpr size_t kDottedNameBytesMax = 222;
constexpr size_t kObjectBytesMax = 1024;
constexpr size_t kSegmentBytesMax = 255;  // what Linux file systems take as one name

bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Calls visit(part) for every part between separators, also empty ones, until it returns an error.
template <typename Visit>
Status ForEachPart(std::string_view text, char separator, Visit visit) {
  for (;;) {
    const size_t end = text.find(separator);
    MUSTER_TRY(visit(text.substr(0, end)));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
}

bool LooksLikeIpAddress(std::string_view name) {
  return std::ranges::count(name, '.') == 3 &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

// `uri` is for the messages.
Status CheckObjectSegment(std::string_view segment, std::string_view uri) {
  if (segment == "." || segment == "..") {
    return Fail(Code::kInvalidArgument,
                "'{}': an object's name cannot have '{}' between slashes; write the path out", uri,
                segment);
  }
  if (segment.size() > kSegmentBytesMax) {
    return Fail(
        Code::kInvalidArgument,
        "'{}': '{}…' has {} bytes; objects are files here, and a file's name has at most {}", uri,
        segment.substr(0, 20), segment.size(), kSegmentBytesMax);
  }
  return {};
}

// The object's name with every run of slashes made one, and none in front.
Result<std::string> CheckedObject(std::string_view object, std::string_view uri) {
  if (object.find_first_of(std::string_view("\0\r\n", 3)) != std::string_view::npos) {
    return Fail(Code::kInvalidArgument,
                "An object's name cannot have NUL bytes or line breaks; rename it");
  }
  if (!IsValidUtf8(object)) {
    return Fail(Code::kInvalidArgument, "An object's name must be UTF-8 text; rename it");
  }
  if (object.size() > kObjectBytesMax) {
    return Fail(Code::kInvalidArgument, "'{}…': an object's name has at most {} bytes, not {}",
                uri.substr(0, 40), kObjectBytesMax, object.size());
  }
  std::string joined;
  const auto append = [&](std::string_view segment) -> Status {
    if (segment.empty()) return {};
    MUSTER_TRY(CheckObjectSegment(segment, uri));
    if (!joined.empty()) joined += '/';
    joined += segment;
    return {};
  };
  MUSTER_TRY(ForEachPart(object, '/', append));
  if (!joined.empty() && object.back() == '/') joined += '/';
  return joined;
}

}  // namespace

Status CheckBucketName(std::string_view bucket) {
  const auto refuse = [&](std::string_view rule) {
    return Fail(Code::kInvalidArgument, "'{}' is not a bucket name: {}", bucket.substr(0, 300),
                rule);
  };
  // Google wants at least 3 characters; a directory does not, and people write gs://b to try.
  if (bucket.empty()) return refuse("it is empty");
  const bool dotted = bucket.find('.') != std::string_view::npos;
  if (dotted ? bucket.size() > kDottedNameBytesMax : bucket.size() > kComponentBytesMax) {
    return refuse("it may have at most 63 characters, or 222 with dots");
  }
  const bool characters = std::ranges::all_of(
      bucket, [](char c) { return IsLowerOrDigit(c) || c == '-' || c == '_' || c == '.'; });
  if (!characters) {
    return refuse("only lowercase letters, digits, '-', '_' and '.' may occur in it");
  }
  if (!IsLowerOrDigit(bucket.front()) || !IsLowerOrDigit(bucket.back())) {
    return refuse("it must begin and end with a letter or a digit");
  }
  if (LooksLikeIpAddress(bucket)) return refuse("it must not look like an IP address");
  return ForEachPart(bucket, '.', [&](std::string_view component) -> Status {
    if (component.empty()) return refuse("it must not have two dots in a row");
    if (component.size() > kComponentBytesMax) {
      return refuse("it may have at most 63 characters between dots");
    }
    return {};
  });
}

Result<GsUri> ParseGsUri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) {
    return Fail(Code::kInvalidArgument, "'{}' is not a Cloud Storage URI such as gs://bucket/path",
                uri.substr(0, 300));
  }
  const std::string_view rest = uri.substr(kScheme.size());
  const size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  MUSTER_TRY(CheckBucketName(bucket));
  GsUri parsed{.bucket = std::string(bucket), .object = {}};
  if (slash != std::string_view::npos) {
    MUSTER_ASSIGN(parsed.object, CheckedObject(rest.substr(slash + 1), uri));
  }
  return parsed;
}

namespace {
// directory + "/" + object, where the URI has a slash behind its bucket.
Result<std::string> PathBelow(std::string directory, std::string_view gs_uri, const GsUri& parsed) {
  const bool has_slash = gs_uri.size() > kScheme.size() + parsed.bucket.size();
  if (has_slash) directory += '/';
  return directory + parsed.object;
}
}  // namespace

BucketDirectories::BucketDirectories(fs::path root, std::map<std::string, fs::path> elsewhere)
    : root_(std::move(root)), elsewhere_(std::move(elsewhere)) {}

Result<fs::path> BucketDirectories::DirectoryOf(std::string_view bucket) const {
  MUSTER_TRY(CheckBucketName(bucket));
  const auto own = elsewhere_.find(std::string(bucket));
  fs::path directory = own != elsewhere_.end() ? own->second : root_ / bucket;
  MUSTER_TRY(MakeDirectories(directory));
  return directory;
}

Result<std::string> BucketDirectories::HostPath(std::string_view gs_uri) const {
  MUSTER_ASSIGN(const GsUri parsed, ParseGsUri(gs_uri));
  MUSTER_ASSIGN(const fs::path directory, DirectoryOf(parsed.bucket));
  std::string text = directory.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return PathBelow(std::move(text), gs_uri, parsed);
}

std::map<std::string, fs::path> BucketDirectories::All() const {
  std::map<std::string, fs::path> all = elsewhere_;
  std::error_code error;
  for (fs::directory_iterator it(root_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unreadable;
    if (CheckBucketName(name) && it->is_directory(unreadable)) all.emplace(name, it->path());
  }
  return all;
}

Result<std::string> MountPath(std::string_view gs_uri) {
  MUSTER_ASSIGN(const GsUri parsed, ParseGsUri(gs_uri));
  return PathBelow("/gcs/" + parsed.bucket, gs_uri, parsed);
}

}  // namespace muster::bucket
