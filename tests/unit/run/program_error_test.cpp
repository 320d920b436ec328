// What real launchers, frameworks and languages print when a program fails, and what of it is quoted.
#include "cli/run/program_error.h"

#include <doctest/doctest.h>

namespace mlk {
namespace {

const std::string frames = R"(Traceback (most recent call last):
  File "/code/train.py", line 3, in <module>
    main()
    ^^^^^^
)";

const std::string torchrun_frames =
    R"(E1126 19:00:00.000000 12 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 (pid: 14) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/usr/local/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
)";

std::string torchrun_banner(const std::string& code, const std::string& traceback) {
  return R"(============================================================
tr.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_19:00:00
  host      : tr-worker-0.tr
  rank      : 1 (local_rank: 1)
  exitcode  : )" +
         code + R"( (pid: 14)
  error_file: <N/A>
  traceback : )" +
         traceback + R"(
============================================================
)";
}

const std::string no_traceback =
    "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";

std::string marked(const std::string& mark, const std::string& error) {
  return mark + "Traceback (most recent call last):\n" + mark +
         "  File \"/code/tr.py\", line 3, in <module>\n" + mark + "    f()\n" + mark + error + "\n";
}

std::string line_of_error(const std::string& text) { return program_error(text).line; }

TEST_CASE("of Python's tracebacks the last error is quoted, by the line that has its type") {
  CHECK(line_of_error(frames + "ValueError: bad lr\n") == "ValueError: bad lr");
  CHECK(line_of_error(frames + "RuntimeError: boom\nsecond line\n") == "RuntimeError: boom");
  CHECK(line_of_error(frames +
                      "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for w\n") ==
        "RuntimeError: Error(s) in loading state_dict for Net: size mismatch for w");
  CHECK(line_of_error(frames + "my.errors.Odd\n") == "my.errors.Odd");
  CHECK(line_of_error(frames + "KeyError: 'a'\nnote one\nnote two\n") == "KeyError: 'a'");
  CHECK(line_of_error(frames +
                      "KeyError: 'a'\n\nDuring handling of the above exception, another exception "
                      "occurred:\n\n" +
                      frames + "ValueError: b\n") == "ValueError: b");
  CHECK(line_of_error("multiprocessing.pool.RemoteTraceback: \n\"\"\"\n" + frames +
                      "ValueError: x\n\"\"\"\n\nThe "
                      "above exception was the direct cause of the following exception:\n\n" +
                      frames + "ValueError: x\n") == "ValueError: x");
  CHECK(line_of_error(
            "  + Exception Group Traceback (most recent call last):\n  |   File \"a\", line 1\n  | "
            "ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | "
            "Traceback (most recent call last):\n    |   File \"a\", line 2\n    | ValueError: one\n    "
            "+------------------------------------\n") == "ValueError: one");
  CHECK(line_of_error(frames + "ValueError: bad\nException ignored in: <function f at 0x1>\n" + frames +
                      "OSError: closed\n") == "ValueError: bad");
  CHECK(line_of_error("  File \"/code/a.py\", line 1\n    f(\n     ^\nSyntaxError: '(' was never closed\n") ==
        "SyntaxError: '(' was never closed");
  CHECK(line_of_error(
            "    loss.backward()\n  File \"x.py\", line 2, in f\n    g()\nRuntimeError: cut above\n") ==
        "RuntimeError: cut above");
}

TEST_CASE("what is printed below an error hides it no more") {
  CHECK(line_of_error("RuntimeError: CUDA out of memory\nwriting 2/2") == "RuntimeError: CUDA out of memory");
  CHECK(line_of_error(frames +
                      "TypeError: dot_general requires contracting dimensions to have the same shape, got "
                      "(3,) and (2,).\n--------------------\nFor simplicity, JAX has removed its internal "
                      "frames from the traceback of the following exception. Set "
                      "JAX_TRACEBACK_FILTERING=off to include these.\n") ==
        "TypeError: dot_general requires contracting dimensions to have the same shape, got (3,) and (2,).");
  CHECK(line_of_error(
            "Error executing job with overrides: ['x=1']\n" + frames +
            "ValueError: bad lr\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack "
            "trace.\n") == "ValueError: bad lr");
  CHECK(line_of_error(
            "Could not override 'foo'.\nKey 'foo' is not in struct\n    full_key: foo\n    "
            "object_type=dict\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack "
            "trace.\n") == "Could not override 'foo'.");
  CHECK(line_of_error(frames + "ValueError: bad\nwandb: \nwandb: Find logs at: ./wandb/x/logs\n") ==
        "ValueError: bad");
}

TEST_CASE("behind torchrun stands the error of the rank that failed first") {
  const std::string own = marked("[rank1]: ", "FileNotFoundError: no data set in /data/imagenet");
  const std::string other =
      marked("[rank0]: ", "RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1");
  const std::string said = "FileNotFoundError: no data set in /data/imagenet (rank 1)";
  const std::string banner = torchrun_frames + torchrun_banner("1", no_traceback);
  CHECK(line_of_error(own + other + banner) == said);
  CHECK(line_of_error(other + own + banner) == said);
  CHECK(line_of_error(own + marked("[rank0]: ", "ValueError: also") + banner) == said);
  // Before PyTorch 2.3 without marks.
  CHECK(line_of_error(marked("", "FileNotFoundError: no data set in /data/imagenet") + banner) == said);
  CHECK(line_of_error(own + torchrun_frames.substr(400) + torchrun_banner("1", no_traceback)) == said);
  const std::string recorded =
      "Traceback (most recent call last):\n    File \"/code/tr.py\", line 3, in main\n      "
      "raise E\n  FileNotFoundError: no data set in /data/imagenet\n  ";
  CHECK(line_of_error(torchrun_frames + torchrun_banner("1", recorded)) == said);
  CHECK(line_of_error(banner) == "rank 1 ended with exit code 1");
  CHECK(line_of_error(torchrun_frames + torchrun_banner("-11", "Signal 11 (SIGSEGV) received by PID 14")) ==
        "rank 1 was ended by signal 11");
  CHECK(program_error(own + banner).text + "\n" == own);
  CHECK_FALSE(program_error(banner).is_found);
}

TEST_CASE("of errors that repeat or blame the end of another process the other one's is quoted") {
  CHECK(line_of_error(
            marked("", "ValueError: own") + frames +
            "subprocess.CalledProcessError: Command '['python3', 'a.py']' returned non-zero exit status "
            "1.\n") == "ValueError: own");
  CHECK(line_of_error(frames +
                      "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with "
                      "the following error:\n" +
                      frames + "ValueError: own\n") == "ValueError: own");
  CHECK(line_of_error(marked("", "ValueError: own") +
                      marked("",
                             "ConnectionResetError: [Errno 104] Connection reset "
                             "by peer")) == "ValueError: own");
  CHECK(line_of_error(marked("", "ConnectionResetError: Connection reset by peer")) ==
        "ConnectionResetError: Connection reset by peer");
  CHECK(line_of_error(frames +
                      "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1, ip=10.0.0.1)\n  File "
                      "\"a.py\", line 2, in f\nValueError: own\n") == "ValueError: own");
}

TEST_CASE("a rank of MPI is named with its own error") {
  const std::string aborted =
      "--------------------------------------------------------------------------\n"
      "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\n"
      "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n"
      "You may or may not see output from other processes, depending on\n"
      "exactly when Open MPI kills them.\n"
      "--------------------------------------------------------------------------\n";
  const std::string own = marked("", "FileNotFoundError: no data set in /data/imagenet");
  const std::string mlk = "mlk: rank 3 of MPI ended with exit code 1\n";
  const std::string said = "rank 3 of MPI: FileNotFoundError: no data set in /data/imagenet";
  CHECK(line_of_error(own + mlk) == said);
  CHECK(line_of_error(own + aborted + mlk) == said);
  CHECK(line_of_error(marked("[1,3]<stderr>: ", "FileNotFoundError: no data set in /data/imagenet") + mlk) ==
        said);
  CHECK(line_of_error("step 3\n" + mlk) == "rank 3 of MPI ended with exit code 1");
  CHECK(line_of_error("mlk: rank 2 of MPI was ended by signal 11\n") ==
        "rank 2 of MPI was ended by signal 11");
  CHECK(line_of_error(
            own +
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 1 RUNNING AT a\n=   EXIT "
            "CODE: 1\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Hangup (signal 1)\n") ==
        "FileNotFoundError: no data set in /data/imagenet");
}

TEST_CASE("errors of other languages, and last lines without an error") {
  CHECK(line_of_error(
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\nAborted "
            "(core dumped)\n") == "std::runtime_error: boom");
  CHECK(
      line_of_error("panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:3 +0x1\nexit status 2\n") ==
      "panic: boom");
  CHECK(line_of_error(
            "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment "
            "variable to display a backtrace\n") == "thread 'main' panicked at src/main.rs:2:5: boom");
  CHECK(line_of_error(
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File "
            "\"a.py\", line 1 in f\n") == "Fatal Python error: Segmentation fault");
  CHECK(line_of_error("step 1\ncannot open /data/x\n") == "cannot open /data/x");
  CHECK(line_of_error("python3: can't open file '/code/trian.py': [Errno 2] No such file or directory\n") ==
        "python3: can't open file '/code/trian.py': [Errno 2] No such file or directory");
  CHECK(line_of_error("failed\n----------\n") == "failed");
  CHECK(line_of_error("----------") == "----------");
  CHECK(line_of_error("") == "");
  CHECK_FALSE(program_error("error rate: 5\nvalue Error is low").is_found);
  CHECK_FALSE(program_error("warmup: 3").is_found);
  std::string far = frames + "ValueError: handled\n";
  for (int i = 0; i < 60; ++i) far += "line " + std::to_string(i) + "\n";
  CHECK(line_of_error(far) == "line 59");
}

TEST_CASE("more of a log is needed where its end has a launcher's words alone, or is a part of a message") {
  CHECK(lacks_the_error(torchrun_frames + torchrun_banner("1", no_traceback)));
  CHECK(lacks_the_error("mlk: rank 3 of MPI ended with exit code 1\n"));
  CHECK(lacks_the_error(std::string(1900, 'x')));
  CHECK_FALSE(lacks_the_error(std::string(1899, 'x')));
  std::string lines;
  for (int i = 0; i < 79; ++i) lines += "x\n";
  CHECK(lacks_the_error(lines));
  CHECK_FALSE(lacks_the_error(lines.substr(2)));
  CHECK_FALSE(
      lacks_the_error(marked("[rank1]: ", "ValueError: x") + torchrun_frames + torchrun_banner("1", "")));
  CHECK_FALSE(lacks_the_error("cannot open /data/x\n"));
  CHECK_FALSE(lacks_the_error(""));
}

}  // namespace
}  // namespace mlk
