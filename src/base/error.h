// Expected failures: what network, disk, users or training code may do. A broken invariant is
// MUSTER_CHECK (check.h) instead.
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

// gRPC's canonical codes, with their numbers, so that every face maps them alike.
enum class Code {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on.
std::string_view CodeName(Code code);

// What happened, to what, and what to do about it, in words for the user.
struct Error {
  Code code = Code::kUnknown;
  std::string message;

  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// return Fail(Code::kNotFound, "bucket {} does not exist", name);
template <typename... Args>
[[nodiscard]] std::unexpected<Error> Fail(Code code, fmt::format_string<Args...> format,
                                          Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The error of a failed system call: "<what>: No space left on device". Maps ENOENT, EACCES,
// ENOSPC and the like to canonical codes.
[[nodiscard]] std::unexpected<Error> FailErrno(int error_number, std::string_view what);

}  // namespace muster

// Hand a failed Result's error to the caller.
#define MUSTER_TRY(expression)                                         \
  do {                                                                 \
    auto muster_status = (expression);                                 \
    if (!muster_status) return std::unexpected(muster_status.error()); \
  } while (false)

#define MUSTER_CONCAT_(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_(a, b)

// MUSTER_ASSIGN(auto text, ReadFile(path));
#define MUSTER_ASSIGN(declaration, expression) \
  MUSTER_ASSIGN_(MUSTER_CONCAT(muster_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none
#define MUSTER_ASSIGN_(result, declaration, expression) \
  auto result = (expression);                           \
  if (!result) return std::unexpected(result.error());  \
  declaration = std::move(*result)
// NOLINTEND(bugprone-macro-parentheses)
