#include "server/transcode/query.h"

#include <gmock/gmock.h>
#include <google/cloud/aiplatform/v1/job_service.pb.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "server/transcode/field_text.h"

namespace muster::server {
namespace {

namespace v1 = google::cloud::aiplatform::v1;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ParseQuery, DecodesKeysAndValues) {
  EXPECT_THAT(*ParseQuery("filter=state%3D%22A%22+AND+b%3A%22run%2A%22&pageSize=1"),
              ElementsAre(Pair("filter", "state=\"A\" AND b:\"run*\""), Pair("pageSize", "1")));
  EXPECT_THAT(*ParseQuery("a&b=&&=c&d=e=f"),
              ElementsAre(Pair("a", ""), Pair("b", ""), Pair("", "c"), Pair("d", "e=f")));
  EXPECT_THAT(*ParseQuery(""), ElementsAre());
  EXPECT_EQ(ParseQuery("a=%4").error().code, Code::kInvalidArgument);
}

TEST(TakeSystemParameters, KnowsEveryClientsSpelling) {
  for (const auto* query : {"%24alt=json%3Benum-encoding%3Dint", "$alt=json%3Benum-encoding=int",
                            "$alt=json;enum-encoding=int", "alt=json;enum-encoding%3dint"}) {
    auto parameters = *ParseQuery(query);
    const auto style = TakeSystemParameters(parameters);
    ASSERT_TRUE(style.has_value()) << query;
    EXPECT_TRUE(style->enums_as_integers) << query;
    EXPECT_TRUE(parameters.empty());
  }
  auto names = *ParseQuery("alt=json&key=k&access_token=t&$foo=x&prettyPrint=true&filter=f");
  const auto style = TakeSystemParameters(names);
  EXPECT_FALSE(style->enums_as_integers);
  EXPECT_TRUE(style->pretty);
  EXPECT_THAT(names, ElementsAre(Pair("filter", "f")));

  auto proto = *ParseQuery("alt=proto");
  EXPECT_THAT(TakeSystemParameters(proto).error().message, HasSubstr("alt=proto"));
}

Result<v1::ListCustomJobsRequest> Bind(std::string_view query) {
  v1::ListCustomJobsRequest request;
  MUSTER_ASSIGN(auto parameters, ParseQuery(query));
  MUSTER_TRY(BindQuery(parameters, "", request));
  return request;
}

TEST(BindQuery, SetsFieldsInBothCases) {
  const auto request =
      Bind("page_size=5&pageToken=t&filter=a&readMask=displayName,jobSpec.network");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->page_size(), 5);
  EXPECT_EQ(request->page_token(), "t");
  EXPECT_THAT(request->read_mask().paths(), ElementsAre("display_name", "job_spec.network"));
  EXPECT_THAT(Bind("read_mask=display_name")->read_mask().paths(), ElementsAre("display_name"));
}

TEST(BindQuery, NamesWhatItCannotBind) {
  EXPECT_EQ(Bind("foo=1").error().message,
            "Invalid JSON payload received. Unknown name \"foo\": Cannot bind query parameter. "
            "Field 'foo' could not be found in request message.");
  EXPECT_EQ(Bind("pageSize=many").error().message,
            "Invalid value at 'page_size' (TYPE_INT32), \"many\"");
  EXPECT_THAT(Bind("pageSize=99999999999").error().message, HasSubstr("page_size"));
  EXPECT_THAT(Bind("pageSize=1&page_size=2").error().message, HasSubstr("more than once"));
  EXPECT_THAT(Bind("filter.x=1").error().message, HasSubstr("filter.x"));
  EXPECT_THAT(Bind("filter=%ff").error().message, HasSubstr("'filter'"));
  EXPECT_THAT(Bind("readMask.paths=a")->read_mask().paths(), ElementsAre("a"));
}

TEST(BindQuery, TheBodysFieldsAreNotTheQuerys) {
  v1::CreateCustomJobRequest create;
  const QueryParameters in_body = {{"customJob.displayName", "x"}};
  EXPECT_THAT(BindQuery(in_body, "custom_job", create).error().message, HasSubstr("body"));
  v1::CancelCustomJobRequest cancel;
  EXPECT_FALSE(BindQuery({{"name", "x"}}, "*", cancel).has_value());
}

TEST(SetFieldFromText, AllKindsOfFields) {
  v1::CustomJob job;
  const auto set = [&](std::string_view path, std::string_view text) {
    return SetFieldFromText(job, path, text, FieldTextUse::kQuery).has_value();
  };
  EXPECT_TRUE(set("state", "JOB_STATE_RUNNING"));
  EXPECT_EQ(job.state(), v1::JOB_STATE_RUNNING);
  job.clear_state();
  EXPECT_TRUE(set("state", "4"));
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(set("createTime", "2026-11-20T17:36:26Z"));
  EXPECT_EQ(job.create_time().seconds(), 1795196186);
  EXPECT_TRUE(set("jobSpec.scheduling.timeout", "3.5s"));
  EXPECT_EQ(job.job_spec().scheduling().timeout().nanos(), 500'000'000);
  EXPECT_TRUE(set("jobSpec.enableWebAccess", "true"));
  EXPECT_TRUE(set("job_spec.reserved_ip_ranges", "a"));
  EXPECT_TRUE(set("jobSpec.reservedIpRanges", "b"));
  EXPECT_THAT(job.job_spec().reserved_ip_ranges(), ElementsAre("a", "b"));

  EXPECT_FALSE(set("endTime", "yesterday"));
  EXPECT_FALSE(set("jobSpec", "x"));
  EXPECT_FALSE(set("labels", "x"));
  EXPECT_FALSE(set("labels.a", "x"));
  EXPECT_FALSE(set("jobSpec.workerPoolSpecs.replicaCount", "1"));
  EXPECT_FALSE(set("jobSpec.enableDashboardAccess", "maybe"));
  EXPECT_FALSE(set("", "x"));
  EXPECT_FALSE(set("jobSpec.", "x"));
  EXPECT_TRUE(SetFieldFromText(job, "state", "5", FieldTextUse::kPath).has_value())
      << "a path's value wins";
}

RC_GTEST_PROP(Query, AnyBytesAreReadOrRefused, (std::string bytes)) {
  v1::ListCustomJobsRequest request;
  auto parameters = ParseQuery(bytes);
  if (!parameters) return;
  if (!TakeSystemParameters(*parameters)) return;
  const auto status = BindQuery(*parameters, "", request);
  if (!status) RC_ASSERT(status.error().code == Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::server
