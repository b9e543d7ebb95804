// Errors as REST clients see them.
#pragma once

#include <string>

#include "base/error.h"

namespace muster::server {

// The canonical code's HTTP status: NOT_FOUND → 404.
int HttpStatus(Code code);

// An error whose HTTP status is not its code's own: 405, 413.
struct HttpError {
  HttpError(Error error_in)  // NOLINT(google-explicit-constructor): an Error is an HttpError
      : status(HttpStatus(error_in.code)), error(std::move(error_in)) {}
  HttpError(int status_in, Error error_in) : status(status_in), error(std::move(error_in)) {}

  int status;
  Error error;
  std::string allow;  // with 405: the methods that the path has, "GET, DELETE"
};

// {"error":{"code":404,"message":"…","status":"NOT_FOUND","details":[]}}
std::string ErrorBody(const HttpError& error);

}  // namespace muster::server
