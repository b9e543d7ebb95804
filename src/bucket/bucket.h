// gs:// names on directories: gs://bucket/a/b is <root of bucket>/a/b.
//
// Where directories cannot tell object names apart, neither does Muster: runs of slashes count as
// one. Nothing is decoded: "%20", "#", "?" and ":" are characters like any other.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::bucket {

struct GsUri {
  std::string bucket;
  std::string object;  // without a leading slash; may be empty or end with one

  bool operator==(const GsUri&) const = default;
};

// Google's rules for bucket names, with two liberties: names may be shorter than 3 characters, and
// "goog" and "google" may occur in them, since whoever mirrors one of Google's public buckets keeps
// its name. INVALID_ARGUMENT says which rule.
Status CheckBucketName(std::string_view bucket);

// "gs://bucket/object". INVALID_ARGUMENT for bad bucket names, objects with "." or ".." segments,
// NUL bytes, line breaks or bytes that are not UTF-8, or more than 1024 bytes (255 in a segment).
Result<GsUri> ParseGsUri(std::string_view uri);

class BucketDirectories {
 public:
  // Buckets lie in `root`/<bucket>, but for those with a directory of their own in `elsewhere`.
  BucketDirectories(std::filesystem::path root,
                    std::map<std::string, std::filesystem::path> elsewhere = {});

  const std::filesystem::path& root() const { return root_; }

  // The bucket's directory, made if it is not there.
  Result<std::filesystem::path> DirectoryOf(std::string_view bucket) const;

  // The real path of a gs:// URI on this host, a trailing slash kept. Never leaves the bucket's
  // directory by its name; does not follow what links inside it say.
  Result<std::string> HostPath(std::string_view gs_uri) const;

  // All buckets with their directories: those that exist below root, and elsewhere.
  std::map<std::string, std::filesystem::path> All() const;

 private:
  std::filesystem::path root_;
  std::map<std::string, std::filesystem::path> elsewhere_;
};

// "gs://bucket/a/" → "/gcs/bucket/a/": how code in a replica with the mount sees it.
Result<std::string> MountPath(std::string_view gs_uri);

}  // namespace muster::bucket
