"""What mlk prints on a terminal. mlk knows the width of the terminal, and which characters it can show."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios

import mlk


def on_terminal(columns, *command, env=None):
    """The output of the command on a terminal with this number of columns. The command must end with 0."""
    own, its = pty.openpty()
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "", **(env or {})}
        with subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=environment) as process:
            os.close(its)
            its = None
            said = b"".join(iter(lambda: read_some(own), b""))
        assert process.returncode == 0, said
        return said.decode().replace("\r\n", "\n")
    finally:
        for descriptor in (own, its):
            if descriptor is not None:
                os.close(descriptor)


def read_some(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the program has ended, and no other process has the terminal open
        return b""


def test_help_texts_are_folded_to_the_width_of_a_terminal_but_not_in_a_pipe():
    for words in ([], ["sweep"], ["ls"], ["local", "up"]):
        whole = mlk.run(mlk.MLK, *words, "--help", check=0).stdout
        for columns in (60, 100):
            folded = on_terminal(columns, mlk.MLK, *words, "--help")
            assert folded.split() == whole.split()
            assert max(map(len, folded.splitlines())) <= columns, folded
            assert not [line for line in folded.splitlines() if line != line.rstrip()]
    described = mlk.run(mlk.MLK, "sweep", "--help", check=0).stdout
    assert max(map(len, described.splitlines())) > 100


def test_a_dumb_terminal_gets_only_ascii_and_no_escape_sequences(embedded, name):
    submit = [mlk.MLK, "submit", "--local", "--wait", "--set", f"name={name}", mlk.EXAMPLES / "digits-single.yaml"]
    dumb = on_terminal(80, *submit, env={**embedded.env, "TERM": "dumb"})
    assert dumb.isascii() and "\x1b" not in dumb and "\r" not in dumb and "\nSucceeded\n" in dumb, dumb
    for columns, words in ((60, ["status", name]), (40, ["ls", "-o", "wide", name])):
        for plain in ({"TERM": "dumb"}, {"LC_ALL": "C", "NO_COLOR": "1"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX", "NO_COLOR": "1"}):
            shown = on_terminal(columns, mlk.MLK, *words, "--local", env={**embedded.env, **plain})
            assert shown.isascii() and "\x1b" not in shown, shown
        rich = on_terminal(columns, mlk.MLK, *words, "--local", env=embedded.env)
        assert "\x1b[" in rich and not rich.isascii(), rich
    assert not mlk.run(mlk.MLK, "status", "--local", name, check=0, env={**embedded.env, "LC_ALL": "C.UTF-8"}).stdout.isascii()
    assert mlk.run(mlk.MLK, "status", "--local", name, check=0, env={**embedded.env, "LC_ALL": "C"}).stdout.isascii()


def test_mlk_run_follows_on_a_terminal_and_ctrl_c_leaves_the_run(embedded, name, tmp_path):
    (tmp_path / "train.py").write_text("import sys, time\nfor i in range(int(sys.argv[1])): print(f'epoch {i}: loss {1 / (i + 1)}', flush=True); time.sleep(0.1)\n")
    run = [mlk.MLK, "run", "--local", "--name", name, "--", "python3", "train.py"]
    shown = on_terminal(100, "sh", "-c", f"cd {tmp_path} && exec \"$@\"", "sh", *run, "3", env=embedded.env)
    assert "epoch 2: loss 0.3" in shown and "Succeeded" in shown, shown
    own, its = pty.openpty()
    process = subprocess.Popen([*map(str, run), "3000"], stdin=its, stdout=its, stderr=its, env={**os.environ, **embedded.env}, cwd=tmp_path, start_new_session=True)
    os.close(its)
    said = b""
    while b"epoch 3" not in said:
        said += read_some(own)
    process.send_signal(signal.SIGINT)
    said += b"".join(iter(lambda: read_some(own), b""))
    os.close(own)
    assert process.wait(60) == 130
    newest = mlk.run(mlk.MLK, "ls", "--local", name, "-o", "name", check=0, env=embedded.env).stdout.split()[0]
    assert f"mlk logs -f {newest} --local" in said.decode(), said.decode()
    assert embedded.mlk("status", newest, check=0).stdout.split()[1] == "Running"
    embedded.mlk("delete", newest, check=0)
