// Whole commands against a musterd that answers from memory: what is sent, printed and returned.
#include <gtest/gtest.h>

#include "cli/fake_server.h"
#include "cli/testing.h"
#include "cli/yaml.h"

namespace muster::cli {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

const std::string kParent = "projects/muster/locations/us-central1";
const std::string kName = kParent + "/customJobs/4711";

json SucceededJob() {
  return json::parse(R"({"name": "projects/muster/locations/us-central1/customJobs/4711",
    "displayName": "digits", "state": "JOB_STATE_SUCCEEDED",
    "createTime": "2023-11-14T22:10:00Z", "startTime": "2023-11-14T22:10:00.830Z",
    "endTime": "2023-11-14T22:10:47.500Z", "updateTime": "2023-11-14T22:10:47.500Z",
    "jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://b/o"},
      "workerPoolSpecs": [
      {"containerSpec": {"imageUri": "muster.local/host", "args": ["--lr", "0.1"]},
       "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"},
      {"containerSpec": {"imageUri": "muster.local/host"},
       "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "2"}]}})");
}

json FailedJob() {
  json job = SucceededJob();
  job["state"] = "JOB_STATE_FAILED";
  job["error"] = {{"code", 3},
                  {"message",
                   "The replica workerpool1-1 exited with a non-zero status of 1. "
                   "Termination reason: Error. \nValueError: bad shape\n"}};
  return job;
}

json Attempt(const char* state, int status, const char* cause, const char* detail = "") {
  return {{"state", state},
          {"startTime", "2023-11-14T22:10:00.800Z"},
          {"endTime", "2023-11-14T22:10:47.100Z"},
          {"exitStatus", status},
          {"cause", cause},
          {"detail", detail}};
}

json FailedView() {
  json second = Attempt("ENDED", 1, "EXITED",
                        "Traceback (most recent call last):\n  File \"train.py\", line 3\n"
                        "ValueError: bad shape");
  second["attempt"] = 1;
  json view = {
      {"name", kName},
      {"state", "JOB_STATE_FAILED"},
      {"network", "private"},
      {"directory", "/data/jobs/u1"},
      {"warnings", json::array({"this machine has no NVIDIA_TESLA_T4; the replicas run without"})}};
  const auto replica = [](const char* task, const char* role, const char* address) {
    return json{
        {"taskName", task}, {"role", role}, {"address", address}, {"machineType", "n1-standard-4"}};
  };
  view["replicas"] = {replica("workerpool0-0", "primary", "127.0.0.1:20001"),
                      replica("workerpool1-0", "worker", "127.0.0.1:20002"),
                      replica("workerpool1-1", "worker", "127.0.0.1:20003"),
                      replica("workerpool3-0", "evaluator", "127.0.0.1:20004")};
  view["replicas"][0]["attempts"] = json::array({Attempt("ENDED", 143, "STOPPED", "terminated")});
  view["replicas"][1]["attempts"] = json::array({Attempt("ENDED", 137, "OUT_OF_MEMORY")});
  view["replicas"][2]["attempts"] = {Attempt("ENDED", 134, "EXITED"), second};
  return view;
}

json SucceededView() {
  return {{"name", kName},
          {"state", "JOB_STATE_SUCCEEDED"},
          {"directory", "/data/jobs/u1"},
          {"modelDirectory", "/data/buckets/b/o/model"}};
}

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() : server_([this](const auto& request, auto& answer) { Answer(request, answer); }) {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
    world_.context.environment = {{"MUSTER_ENDPOINT", server_.address()},
                                  {"PATH", "/usr/bin:/bin"}};
  }

  void Answer(const FakeRequest& request, FakeAnswer& answer) {
    const std::string& target = request.target;
    if (target == "/v1/" + kParent + "/customJobs" && request.method == "POST") {
      json job = json::parse(request.body, nullptr, false);
      if (job["displayName"] == "refused") {
        return answer.Error(400, "INVALID_ARGUMENT",
                            "List of found errors:\t1.Field: a; Message: b\t2.Field: c; Message: "
                            "d\t");
      }
      if (const size_t at = request.body.find("replicaCnt"); at != std::string::npos) {
        return answer.Error(400, "INVALID_ARGUMENT",
                            "Invalid JSON payload received. Unknown name \"replicaCnt\" at "
                            "'custom_job.job_spec.worker_pool_specs[0]': Cannot find field.");
      }
      job["name"] = kName;
      job["state"] = "JOB_STATE_PENDING";
      return answer.Json(job);
    }
    if (target == "/muster/v1/" + kName) return answer.Json(view_);
    if (target == "/muster/v1/" + kName + "/logs:stream?taskName=worker-0") {
      return answer.Error(400, "INVALID_ARGUMENT",
                          "no replica worker-0; there are: service, workerpool0-0");
    }
    if (target == "/muster/v1/" + kName + "/logs:stream") {
      answer.BeginStream();
      answer.LogEvent("1", {{"timestamp", "2023-11-14T22:10:00Z"},
                            {"taskName", "service"},
                            {"message", "Job is running."}});
      answer.LogEvent("2", {{"timestamp", "2023-11-14T22:10:01.5Z"},
                            {"taskName", "workerpool0-0"},
                            {"message", "epoch 1"}});
      if (!service_error_.empty()) {
        answer.LogEvent("3", {{"timestamp", "2023-11-14T22:10:02Z"},
                              {"severity", "ERROR"},
                              {"taskName", "service"},
                              {"message", service_error_}});
        answer.LogEvent("4", {{"timestamp", "2023-11-14T22:10:02Z"},
                              {"severity", "ERROR"},
                              {"taskName", "service"},
                              {"message", "Job failed."}});
      }
      return answer.Raw("event: end\ndata: {}\n\n");
    }
    if (target == "/v1/" + kName && request.method == "GET") return answer.Json(job_);
    if (target == "/v1/" + kName && request.method == "DELETE") {
      return answer.Json({{"name", kParent + "/operations/9"}, {"done", false}});
    }
    if (target == "/v1/" + kParent + "/operations/9") {
      return answer.Json(
          {{"name", kParent + "/operations/9"}, {"done", true}, {"response", json::object()}});
    }
    if (target == "/v1/" + kName + ":cancel") return answer.Json(json::object());
    if (target == "/healthz") return answer.Text("ok\n");
    if (target.starts_with("/v1/" + kParent + "/customJobs?")) return AnswerList(target, answer);
    answer.Error(404, "NOT_FOUND", "there is no " + target);
  }

  // Five jobs on pages of two.
  static void AnswerList(const std::string& target, FakeAnswer& answer) {
    if (target.find("filter=") != std::string::npos &&
        target.find("filter=state%3D%22JOB_STATE_RUNNING%22") == std::string::npos) {
      return answer.Json(json::object());
    }
    const size_t token = target.find("pageToken=");
    const int first = token == std::string::npos ? 0 : target[token + 10] - '0';
    json page = {{"customJobs", json::array()}};
    constexpr const char* kStates[] = {"RUNNING", "QUEUED", "FAILED", "SUCCEEDED", "CANCELLED"};
    for (int i = first; i < std::min(first + 2, 5); ++i) {
      json job = SucceededJob();
      job["name"] = fmt::format("{}/customJobs/{}", kParent, 104 - i);
      job["displayName"] = fmt::format("job {}", 104 - i);
      job["state"] = fmt::format("JOB_STATE_{}", kStates[i]);
      if (i < 2) job.erase("endTime");
      if (i == 1) job.erase("startTime");
      page["customJobs"].push_back(job);
    }
    if (first + 2 < 5) page["nextPageToken"] = std::to_string(first + 2);
    answer.Json(page);
  }

  int Run(const Texts& arguments) { return world_.Run(arguments); }
  const std::string& out() const { return world_.out.text(); }
  const std::string& err() const { return world_.err.text(); }

  FakeWorld world_;
  json job_ = SucceededJob();
  json view_ = SucceededView();
  std::string service_error_;
  FakeServer server_;
};

const Texts kCreate = {"custom-jobs", "create", "--display-name=digits",
                       "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=i"};

Texts With(Texts arguments, const Texts& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(CommandsTest, CreateSubmitsAndTellsWhatNext) {
  EXPECT_EQ(Run(With(kCreate, {"--args=--a=1,--b", "--worker-pool-spec=", "--labels=x=y",
                               "--enable-web-access"})),
            0);
  EXPECT_EQ(out(), "");
  ExpectGolden("create.err", err());
  ASSERT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(json::parse(server_.requests()[0].body), json::parse(R"({"displayName": "digits",
    "labels": {"x": "y"}, "jobSpec": {"enableWebAccess": true, "workerPoolSpecs": [
    {"containerSpec": {"imageUri": "i", "args": ["--a=1", "--b"]},
     "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}, {}]}})"));
}

TEST_F(CommandsTest, CreateCanPrintTheName) {
  EXPECT_EQ(Run(With(kCreate, {"--format=value(name)"})), 0);
  EXPECT_EQ(out(), kName + "\n");
}

TEST_F(CommandsTest, CreateWaitFollowsAndExitsByTheState) {
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 0);
  ExpectGolden("create_wait.out", out());
  ExpectGolden("create_wait.err", err());
}

TEST_F(CommandsTest, CreateWaitOfAFailedJob) {
  job_ = FailedJob();
  view_ = FailedView();
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  ExpectGolden("create_wait_failed.err", err());
}

TEST_F(CommandsTest, AnErrorThatTheLogJustShowedIsNotRepeated) {
  job_ = FailedJob();
  world_.out = Output::ToString(true);
  service_error_ = job_["error"]["message"].get<std::string>();
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  EXPECT_NE(out().find("ValueError: bad shape"), std::string::npos) << out();
  EXPECT_EQ(err().find("ValueError: bad shape"), std::string::npos) << err();
  EXPECT_NE(err().find("digits "), std::string::npos) << err();
  service_error_ = "something else";
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  EXPECT_NE(err().find("ValueError: bad shape"), std::string::npos) << err();
  // With the log in a file, the summary is all that is seen.
  world_.out = Output::ToString();
  world_.err = Output::ToString();
  service_error_ = job_["error"]["message"].get<std::string>();
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  EXPECT_NE(err().find("ValueError: bad shape"), std::string::npos) << err();
}

TEST_F(CommandsTest, CreateWaitOfACancelledJob) {
  job_["state"] = "JOB_STATE_CANCELLED";
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 3);
}

TEST_F(CommandsTest, CreateReadsConfigurations) {
  TemporaryDirectory directory;
  const std::string file = (directory.path() / "job.yaml").string();
  ASSERT_TRUE(
      WriteFileAtomic(file, "workerPoolSpecs:\n  containerSpec:\n    imageUri: i\n    args: [1]\n")
          .has_value());
  EXPECT_EQ(Run({"ai", "custom-jobs", "create", "--display-name", "d", "--config", file}), 0);
  EXPECT_EQ(json::parse(server_.requests()[0].body), json::parse(R"({"displayName": "d", "jobSpec":
    {"workerPoolSpecs": [{"containerSpec": {"imageUri": "i", "args": ["1"]}}]}})"));
}

TEST_F(CommandsTest, CreateNamesBadInput) {
  TemporaryDirectory directory;
  const std::string file = (directory.path() / "bad.yaml").string();
  ASSERT_TRUE(WriteFileAtomic(file, "a: [").has_value());
  const Texts create = {"custom-jobs", "create", "--display-name=d"};
  EXPECT_EQ(Run(create), 2);
  EXPECT_EQ(Run(With(create, {"--config=/does/not/exist"})), 2);
  EXPECT_EQ(Run(With(create, {"--config=" + file})), 2);
  EXPECT_EQ(Run(With(create, {"--worker-pool-spec=machine-type"})), 2);
  EXPECT_EQ(Run(With(create, {"--worker-pool-spec=machine-type=m"})), 2);
  EXPECT_EQ(Run(With(kCreate, {"--labels=x"})), 2);
  EXPECT_EQ(Run(With(kCreate, {"--wait", "--async"})), 2);
  EXPECT_EQ(Run(With(kCreate, {"--regon=x"})), 2);
  EXPECT_EQ(Run(With(kCreate, {"stray"})), 2);
  std::string text = err();
  for (size_t at; (at = text.find(directory.path().string())) != std::string::npos;) {
    text.replace(at, directory.path().string().size(), "DIR");
  }
  ExpectGolden("create_usage.err", text);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(CommandsTest, CreateShowsTheServersFindings) {
  EXPECT_EQ(Run(With(kCreate, {"--display-name=refused"})), 1);
  EXPECT_EQ(err(),
            "ERROR: (muster.custom-jobs.create) List of found errors:\n"
            "  1.Field: a; Message: b\n  2.Field: c; Message: d\n");
}

TEST_F(CommandsTest, CreateNamesAnUnknownKeyOfTheFile) {
  TemporaryDirectory directory;
  const std::string file = (directory.path() / "job.yaml").string();
  ASSERT_TRUE(WriteFileAtomic(file, "workerPoolSpecs:\n- replicaCnt: 2\n").has_value());
  EXPECT_EQ(Run({"custom-jobs", "create", "--display-name=d", "--config=" + file}), 1);
  EXPECT_EQ(err(), "ERROR: (muster.custom-jobs.create) " + file +
                       ": Unknown name \"replicaCnt\" at workerPoolSpecs[0]; did you mean "
                       "\"replicaCount\"?\n");
}

TEST_F(CommandsTest, DescribeIsYamlAndWhatMusterKnows) {
  job_ = FailedJob();
  view_ = FailedView();
  EXPECT_EQ(Run({"custom-jobs", "describe", "4711"}), 0);
  ExpectGolden("describe.out", out());
  EXPECT_EQ(*ParseDocument(out()), job_);
}

TEST_F(CommandsTest, DescribeOnATerminal) {
  world_.out = Output::ToString(true);
  job_ = FailedJob();
  view_ = FailedView();
  EXPECT_EQ(Run({"custom-jobs", "describe", "4711"}), 0);
  ExpectGolden("describe_terminal.out", out());
}

TEST_F(CommandsTest, DescribeInOtherFormats) {
  EXPECT_EQ(Run({"custom-jobs", "describe", kName, "--format=value(state)"}), 0);
  EXPECT_EQ(out(), "JOB_STATE_SUCCEEDED\n");
  world_.out = Output::ToString();
  EXPECT_EQ(Run({"custom-jobs", "describe", kName, "--format", "json"}), 0);
  EXPECT_EQ(json::parse(out()), job_);
}

TEST_F(CommandsTest, UnknownJobsAreErrors) {
  EXPECT_EQ(Run({"custom-jobs", "describe", "5"}), 1);
  EXPECT_EQ(err(),
            "ERROR: (muster.custom-jobs.describe) there is no /v1/" + kParent + "/customJobs/5\n");
  EXPECT_EQ(Run({"custom-jobs", "describe"}), 2);
  EXPECT_EQ(Run({"custom-jobs", "cancel", "a/b"}), 2);
  EXPECT_EQ(Run({"custom-jobs", "stream-logs", "5"}), 1);
}

TEST_F(CommandsTest, ListIsATableOfAllPages) {
  EXPECT_EQ(Run({"custom-jobs", "list"}), 0);
  ExpectGolden("list.out", out());
}

TEST_F(CommandsTest, ListSortsAndCuts) {
  EXPECT_EQ(Run({"custom-jobs", "list", "--sort-by=name", "--limit=2",
                 "--format=value(name.basename())"}),
            0);
  EXPECT_EQ(out(), "100\n101\n");
  world_.out = Output::ToString();
  EXPECT_EQ(Run({"custom-jobs", "list", "--limit=3", "--format=value(displayName)"}), 0);
  EXPECT_EQ(out(), "job 104\njob 103\njob 102\n");
  EXPECT_EQ(Run({"custom-jobs", "list", "--limit=0"}), 2);
}

TEST_F(CommandsTest, ListSendsTheFilter) {
  EXPECT_EQ(Run({"custom-jobs", "list", "--filter=labels.a=b AND state!=\"X\"", "--page-size=7"}),
            0);
  EXPECT_EQ(
      server_.requests()[0].target,
      "/v1/" + kParent + "/customJobs?pageSize=7&filter=labels.a%3Db%20AND%20state%21%3D%22X%22");
  EXPECT_EQ(err(), "Listed 0 items.\n");
  EXPECT_EQ(out(), "");
}

TEST_F(CommandsTest, CancelAndDelete) {
  job_["state"] = "JOB_STATE_RUNNING";
  EXPECT_EQ(Run({"custom-jobs", "cancel", "4711"}), 0);
  EXPECT_EQ(server_.requests().back().target, "/v1/" + kName + ":cancel");
  EXPECT_EQ(Run({"custom-jobs", "delete", "4711"}), 0);
  ExpectGolden("cancel_delete.err", err());
}

TEST_F(CommandsTest, CancelOfAnEndedJobSaysSo) {
  EXPECT_EQ(Run({"custom-jobs", "cancel", "4711"}), 0);
  EXPECT_EQ(err(), "CustomJob [" + kName + "] has already ended: it is SUCCEEDED.\n");
  for (const FakeRequest& request : server_.requests()) EXPECT_EQ(request.method, "GET");
}

TEST_F(CommandsTest, FilesAreShownWhereThereAreSome) {
  TemporaryDirectory directory;
  job_ = FailedJob();
  view_ = FailedView();
  view_["directory"] = directory.path().string();
  EXPECT_EQ(Run({"custom-jobs", "describe", "4711"}), 0);
  EXPECT_NE(out().find("# Files:    " + directory.path().string() + "\n"), std::string::npos)
      << out();
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  EXPECT_NE(err().find("  files            " + directory.path().string() + "\n"), std::string::npos)
      << err();
}

TEST_F(CommandsTest, AJobWithoutAViewIsSummedUp) {
  view_ = json();
  job_ = FailedJob();
  EXPECT_EQ(Run(With(kCreate, {"--wait"})), 1);
  EXPECT_NE(err().find("digits FAILED"), std::string::npos) << err();
}

TEST_F(CommandsTest, AReplicaWithoutAnAttemptWaitsWhileTheJobGoesOn) {
  view_ = FailedView();
  job_["state"] = "JOB_STATE_PENDING";
  EXPECT_EQ(Run({"custom-jobs", "describe", "4711"}), 0);
  EXPECT_NE(out().find("WAITING"), std::string::npos) << out();
  EXPECT_EQ(out().find("NEVER STARTED"), std::string::npos) << out();
}

TEST_F(CommandsTest, StreamLogs) {
  EXPECT_EQ(Run({"custom-jobs", "stream-logs", "4711", "--allow-multiline-logs"}), 0);
  EXPECT_EQ(out(),
            "22:10:00.000 service       = Job is running.\n"
            "22:10:01.500 workerpool0-0 | epoch 1\n");
}

TEST_F(CommandsTest, StreamLogsOfAReplicaThatIsNotThere) {
  EXPECT_EQ(Run({"custom-jobs", "stream-logs", "4711", "--task-name=worker-0"}), 1);
  EXPECT_EQ(err(),
            "ERROR: (muster.custom-jobs.stream-logs) no replica worker-0; there are: service, "
            "workerpool0-0\n");
}

TEST_F(CommandsTest, RunSubmitsAndFollows) {
  EXPECT_EQ(Run({"run", "--workers", "2", "--", "python", "train.py", "--lr=0.1"}), 0);
  ExpectGolden("run.out", out());
  ExpectGolden("run.err", err());
}

TEST_F(CommandsTest, RunPrintsWhatCreateAccepts) {
  EXPECT_EQ(Run({"run", "--workers=2", "--parameter-servers=1", "--evaluator", "--timeout=1h",
                 "--env", "LR=0.1", "--labels=team=vision", "--print-yaml", "--", "python",
                 "train.py", "--lr=0.1", "7"}),
            0);
  EXPECT_TRUE(server_.requests().empty());
  ExpectGolden("run_print_yaml.out", out());
  TemporaryDirectory directory;
  const std::string file = (directory.path() / "job.yaml").string();
  ASSERT_TRUE(WriteFileAtomic(file, out()).has_value());
  EXPECT_EQ(Run({"custom-jobs", "create", "--config", file}), 0);
  EXPECT_EQ(json::parse(server_.requests()[0].body), *ParseDocument(out()));
}

TEST_F(CommandsTest, RunWithoutAProgramIsAUsageError) {
  EXPECT_EQ(Run({"run", "--workers", "2"}), 2);
  EXPECT_EQ(Run({"run", "--timeout=soon", "--", "x"}), 2);
  EXPECT_EQ(Run({"run", "--workers=many", "--", "x"}), 2);
}

TEST_F(CommandsTest, RunHintsAtItsOwnFlagsBehindTheProgram) {
  EXPECT_EQ(Run({"run", "--detach", "python", "train.py", "--print-yaml"}), 0);
  EXPECT_EQ(err().find("Note: --print-yaml stands behind the program"), 0U) << err();
  EXPECT_NE(server_.requests().back().body.find("--print-yaml"), std::string::npos);
  for (const Texts& clear : {Texts{"run", "--detach", "--", "python", "train.py", "--print-yaml"},
                             Texts{"run", "--detach", "python", "train.py", "--lr=1", "--print"}}) {
    world_.err = Output::ToString();
    EXPECT_EQ(Run(clear), 0);
    EXPECT_EQ(err().find("Note:"), std::string::npos) << err();
  }
}

TEST_F(CommandsTest, RunDetached) {
  EXPECT_EQ(Run({"run", "--detach", "--", "python", "train.py"}), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(CommandsTest, Status) {
  EXPECT_EQ(Run({"status"}), 0);
  EXPECT_EQ(out(), "musterd   http://" + server_.address() + " (from MUSTER_ENDPOINT)\n" +
                       "jobs of   " + kParent + "\n          2 or more RUNNING\n");
}

TEST_F(CommandsTest, WithoutAServer) {
  world_.context.environment = {{"MUSTER_DATA_DIR", "/does/not/exist"}};
  EXPECT_EQ(Run({"custom-jobs", "list"}), 1);
  ExpectGolden("no_musterd.err", err());
  world_.context.environment = {{"MUSTER_ENDPOINT", "127.0.0.1:1"}};
  world_.err = Output::ToString();
  EXPECT_EQ(Run({"custom-jobs", "list"}), 1);
  ExpectGolden("no_answer.err", err());
  world_.err = Output::ToString();
  EXPECT_EQ(Run({"custom-jobs", "list", "--endpoint=127.0.0.1:2"}), 1);
  EXPECT_NE(err().find("That address is from --endpoint."), std::string::npos) << err();
}

}  // namespace
}  // namespace muster::cli
