// Tests which part mlk quotes from the output of real launchers, frameworks and languages.
#include "cli/run/facts/program_error.h"

#include <doctest/doctest.h>

#include "cli/util/text.h"

TEST_SUITE_BEGIN("run/facts/program_error");

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

std::string trim_text(const std::string& text) { return std::string(trim(text)); }

TEST_CASE("line_of_error() quotes the last error of Python, even if the traceback is cut off") {
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

TEST_CASE("line_of_error() finds an error that has other lines below it") {
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

TEST_CASE("under torchrun, line_of_error() quotes the error of the rank that failed first") {
  const std::string own = marked("[rank1]: ", "FileNotFoundError: no data set in /data/imagenet");
  const std::string other =
      marked("[rank0]: ", "RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1");
  const std::string said = "FileNotFoundError: no data set in /data/imagenet (rank 1)";
  const std::string banner = torchrun_frames + torchrun_banner("1", no_traceback);
  CHECK(line_of_error(own + other + banner) == said);
  CHECK(line_of_error(other + own + banner) == said);
  CHECK(line_of_error(own + marked("[rank0]: ", "ValueError: also") + banner) == said);
  // PyTorch before 2.3 prints no marks of ranks.
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

TEST_CASE("line_of_error() prefers a process's own error to an error about another process") {
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

TEST_CASE("line_of_error() quotes the error of a failed MPI rank with the rank's number") {
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

TEST_CASE("line_of_error() quotes an error of C++, Go or Rust, or else the last line with content") {
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

TEST_CASE("lacks_the_error() is true for a launcher's words alone, and for a message that may be cut off") {
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

std::string repeated(const std::string& line, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += line;
  return all;
}

TEST_CASE("line_of_error() removes the mark of a process, such as `[rank1]: `") {
  const auto line = [](const std::string& mark) { return line_of_error(mark + "ValueError: bad"); };
  for (const std::string& mark :
       {std::string("[rank0]: "), std::string("[rank12]:"), std::string("[1,3]<stderr>: "),
        std::string("[1,3]<stderr>:"), std::string("(Worker pid=12) "),
        "(" + std::string(73, 'a') + " pid=) ", "[1," + std::string(19, '3') + "]<stderr>:",
        "[1," + std::string(20, '3') + "<stderr>:", std::string("  | "), std::string(19, ' ') + "| "}) {
    CAPTURE(mark);
    CHECK(line(mark) == "ValueError: bad");
    CHECK(program_error(mark + "ValueError: bad").is_found);
  }
  for (const std::string& mark :
       {std::string("[rank0] "), std::string("[rank0"), std::string("(Worker) "),
        "(" + std::string(75, 'a') + " pid=) ", "[1," + std::string(21, '3') + "]<stderr>:",
        std::string("pid=3) "), std::string("| "), std::string(20, ' ') + "| ", std::string("1<stderr>:")}) {
    CAPTURE(mark);
    CHECK_FALSE(program_error(mark + "ValueError: bad").is_found);
  }
}

TEST_CASE("the lines that only a launcher prints are removed from the program's last words") {
  for (const char* line : {"[E] torch/distributed/elastic/agent/server.py:1] failed",
                           "torch.distributed.elastic says",
                           "torch/distributed/run.py:766",
                           "W torch.distributed.run: setting OMP_NUM_THREADS",
                           "MPI_ABORT was invoked on rank 1 in communicator X",
                           "with errorcode 1.",
                           "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
                           "You may or may not see output from other processes, depending on",
                           "exactly when Open MPI kills them.",
                           "Primary job  terminated normally, but 1 process returned",
                           "a non-zero exit code. Per user-direction, the job has been aborted.",
                           "non-zero status, thus causing",
                           "mpirun detected that one or more processes exited",
                           "prterun detected that one or more processes exited",
                           "mpirun has exited due to process rank 1",
                           "prterun has exited due to process rank 1",
                           "mpirun noticed that process rank 1",
                           "prterun noticed that process rank 1",
                           "the job to be terminated. The first process to do so was:",
                           "Process name: [[1,1],0]",
                           "Exit code:    1",
                           "application called MPI_Abort(MPI_COMM_WORLD, 1)",
                           "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
                           "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed",
                           "CLEANING UP REMAINING PROCESSES",
                           "YOU CAN IGNORE THE BELOW CLEANUP MESSAGES",
                           "=   anything",
                           "Sending process 12 closing signal SIGTERM"}) {
    CAPTURE(line);
    const ProgramError error = program_error(std::string("own words\n") + line + "\n");
    CHECK(error.line == "own words");
    CHECK(error.text == "own words");
    CHECK_FALSE(error.is_found);
    CHECK(lacks_the_error(line));
    CHECK(program_error(line).text == line);  // the only text there is
  }
  CHECK(program_error("own words\n=  x\n").line == "=  x");
}

TEST_CASE("line_of_error() skips each kind of footer") {
  for (const char* line :
       {"For simplicity, JAX has removed its internal frames from the traceback",
        "Set JAX_TRACEBACK_FILTERING=off to include these.", "wandb: Find logs at: ./wandb",
        "note: run with `RUST_BACKTRACE=1` environment variable",
        "The stack trace below excludes JAX-internal frames.",
        "The preceding is the original exception that occurred, unmodified.", "JAX_TRACEBACK_FILTERING=off",
        "  wandb: indented", "-------", "...", "~~~^^^"}) {
    CAPTURE(line);
    CHECK(line_of_error(std::string("own words\n") + line + "\n") == "own words");
    CHECK(line_of_error(line) == trim_text(line));
  }
  for (const char* line : {"a", "Z", "0", "9", "z", "A", "\xc3\xa9", "say wandb: x"}) {
    CAPTURE(line);
    CHECK(line_of_error(std::string("own words\n") + line + "\n") == line);
  }
}

TEST_CASE("line_of_error() skips an error that a launcher has printed") {
  for (const char* error :
       {"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "subprocess.CalledProcessError: Command", "torch.multiprocessing.spawn.ProcessExitedException: x",
        "torch.multiprocessing.spawn.ProcessRaisedException: x",
        "RuntimeError: Horovod detected that one or more processes exited with non-zero status"}) {
    CAPTURE(error);
    CHECK(line_of_error(marked("", "ValueError: own") + frames + error + "\n") == "ValueError: own");
    CHECK_FALSE(program_error(frames + error + "\n").is_found);
  }
  CHECK(line_of_error(frames + "ValueError: no CalledProcessError here\n") ==
        "ValueError: no CalledProcessError here");
}

TEST_CASE("a line counts as an error if it begins with the type of an error") {
  for (const char* line :
       {"ValueError: bad", "ValueError", "a.b_c.Odd2Error: x", "MyException: x", "KeyboardInterrupt",
        "StopIteration", "ExceptionGroup: two (1 sub-exception)", "Fatal Python error: Aborted",
        "panic: boom", "thread 'main' panicked at src/main.rs:2:5", "Error: x",
        "fatal: repository 'x' not found"}) {
    CAPTURE(line);
    CHECK(program_error(std::string("said\n") + line + "\n").is_found);
  }
  for (const char* line :
       {"ValueError bad", "a-b.ValueError: x", "valueError: x", "9Error: x", "_Error: x", "a.error: x",
        ": ValueError", "ValueErrors: x", "Interrupted: x", "StopIterations: x", "Fatal Python error",
        "say panic: boom", "thread 'main' says", "Fatal: x", "a fatal: x", "fatal",
        "thread main' panicked at x", "terminate called without an active exception"}) {
    CAPTURE(line);
    CHECK_FALSE(program_error(std::string("said\n") + line + "\n").is_found);
  }
}

TEST_CASE("an error without a traceback is found if at most 39 other lines follow it") {
  const std::string error = "ValueError: bad\n";
  CHECK(line_of_error(error + repeated("x\n", 39)) == "ValueError: bad");
  CHECK(line_of_error(error + repeated("x\n", 40)) == "x");
  CHECK(line_of_error(error + repeated("x\n", 39) + repeated("---\n", 9) + repeated("=   y\n", 9)) ==
        "ValueError: bad");
}

TEST_CASE("a traceback is the last error if at most 39 unindented lines follow it") {
  const std::string error = frames + "ValueError: bad\n";  // one of these lines is the error
  CHECK(line_of_error(error + repeated("x\n", 39)) == "ValueError: bad");
  CHECK_FALSE(program_error(error + repeated("x\n", 40)).is_found);
  CHECK(line_of_error(error + repeated("  x\n", 60)) == "ValueError: bad");
  CHECK(line_of_error(error + repeated("---\n", 60)) == "ValueError: bad");
  CHECK(line_of_error(error + repeated("=   x\n", 60)) == "ValueError: bad");
}

TEST_CASE("line_of_error() joins an error with its message if the message begins on the next line") {
  CHECK(line_of_error(frames + "ValueError:\n\n  the message\nmore\n") == "ValueError: the message");
  CHECK(line_of_error(frames + "ValueError:\n----\nmore\n") == "ValueError");
  CHECK(line_of_error(frames + "ValueError:\n" + frames) == "ValueError");
  CHECK(line_of_error(frames + "ValueError:\n=   x\n") == "ValueError");
  CHECK(line_of_error(frames + "ValueError:\n") == "ValueError");
  CHECK(line_of_error(frames + "ValueError: bad\nmore\n") == "ValueError: bad");
}

TEST_CASE("line_of_error() quotes the type of a C++ exception, and the message if there is one") {
  const std::string head = "terminate called after throwing an instance of ";
  CHECK(line_of_error(head + "'int'\n") == head + "'int'");
  CHECK(line_of_error(head + "'int'\nAborted (core dumped)\n") == "int");
  CHECK(line_of_error(head + "'std::bad_alloc'\n  what():  std::bad_alloc\n") ==
        "std::bad_alloc: std::bad_alloc");
}

TEST_CASE("line_of_error() skips a traceback that did not end the program") {
  CHECK_FALSE(program_error("Exception ignored in: <function f>\n" + frames + "ValueErr: x\n").is_found);
  CHECK(line_of_error(frames + "ValueError: own\n--- Logging error ---\n" + frames + "OSError: log\n") ==
        "ValueError: own");
}

TEST_CASE("line_of_error() reads only the lines of the rank that torchrun's banner names") {
  const std::string banner = torchrun_frames + torchrun_banner("1", no_traceback);
  CHECK(line_of_error(marked("[rank1]: ", "ValueError: one") + marked("[rank11]: ", "ValueError: eleven") +
                      banner) == "ValueError: one (rank 1)");
  // Lines of another rank stand between the lines of a traceback.
  CHECK(line_of_error("[rank1]: Traceback (most recent call last):\n[rank0]: KeyError: 'of another'\n"
                      "[rank1]:   File \"a\", line 1\n[rank1]: ValueError: own\n" +
                      banner) == "ValueError: own (rank 1)");
  CHECK(line_of_error(torchrun_frames + torchrun_banner("0", no_traceback)) ==
        "rank 1 ended with exit code 0");
  CHECK(line_of_error(torchrun_frames + torchrun_banner("x", no_traceback)).find("rank 1 ended") ==
        std::string::npos);
}

TEST_CASE("line_of_error() quotes an error that blames a peer if there is no other error") {
  const std::string first = marked("", "ConnectionResetError: first, Connection reset by peer"),
                    second = marked("", "BrokenPipeError: second, Broken pipe");
  CHECK(line_of_error(first + second) == "BrokenPipeError: second, Broken pipe");
  CHECK(line_of_error(first + marked("", "ValueError: own") + second) == "ValueError: own");
}

TEST_CASE("program_error() keeps mlk's own line about an MPI rank") {
  const std::string mlk_says = "mlk: rank 3 of MPI ended with exit code 1";
  CHECK(program_error("own\nwith errorcode 1.\n" + mlk_says + "\n").text == "own\n" + mlk_says);
  CHECK(program_error("mlk: rank 3 says no\n").line == "mlk: rank 3 says no");
  CHECK_FALSE(lacks_the_error("mlk: rank 3 says no\n"));
  CHECK_FALSE(lacks_the_error("ValueError: bad\n" + mlk_says + "\n"));
}

TEST_CASE("line_of_error() quotes the first line of an error of Hydra if Hydra's footer is below it") {
  const std::string words = "before\n\nCould not load x\nIn 'a'\n\n";
  CHECK(line_of_error(words) == "In 'a'");
  CHECK(line_of_error(words + "Set the environment variable HYDRA_FULL_ERROR=1 for more\n") ==
        "Could not load x");
}

TEST_CASE("a termination message is completed with the lines that follow it in the log") {
  struct Row {
    const char *message, *log_end, *whole;
  };
  const Row rows[] = {
      {"", "a\nb\n", "a\nb\n"},
      {" \n", "a\n", "a\n"},
      {"a\nb\n", "a\nb\nc\n", "a\nb\nc\n"},
      {"a\nb", "b\nc\nd\n", "a\nb\nc\nd\n"},  // the end of the log begins in the middle of the message
      {"a\n", "a\nb\na\nc\n", "a\nc\n"},      // the last of the equal lines counts
      {"a\nb\n", "a\nb\n", "a\nb\n"},         // the message was complete
      {"a\nb\n", "a\nb\n\n", "a\nb\n"},
      {"a\nb\n", "a\nb", "a\nb\n"},
      {"own\n", "a\nmy own\nb\n", "own\n"},  // from a file that the program wrote
      {"a\n", "", "a\n"},
  };
  for (const Row& row : rows)
    CHECK_MESSAGE(with_lines_below(row.message, row.log_end) == row.whole, row.log_end);
}

}  // namespace
}  // namespace mlk
