"""mlk as a process: started with closed streams, under another name, or in a folder that does not exist any more."""

import os
import signal
import subprocess

import mlk

PROGRAM = "name: {name}\nmode: single\nrun: echo done\nworkers: {{cpu: 50m, memory: 32Mi}}\n"


def shell(script, *words, **options):
    """Runs a script of sh with `words` as its "$@"."""
    return mlk.run("sh", "-c", script, "sh", *words, **options)


def test_commands_succeed_if_their_standard_streams_are_closed(embedded, name, experiment):
    file = experiment(PROGRAM.format(name=name))
    shell('exec "$@" <&- >&- 2>&-', mlk.MLK, "submit", "--local", file, check=0, env=embedded.env)
    assert embedded.mlk("ls", name, "-o", "name", check=0).stdout.startswith(f"{name}-")
    shell('exec "$@" >&-', mlk.MLK, "version", check=0)


def test_mlk_fails_and_says_why_if_standard_output_is_on_a_full_disk():
    full = shell('exec "$@" >/dev/full', mlk.MLK, "version", check=1)
    assert full.stderr == "mlk: error: cannot write to standard output: No space left on device\n"
    full = shell('exec "$@" >/dev/full', mlk.MLK, "--help", check=1)
    assert full.stderr == "mlk: error: cannot write to standard output: No space left on device\n"


def test_mlk_starts_the_local_cluster_under_any_program_name_and_from_any_folder(tmp_path):
    state, gone, path = tmp_path / "state", tmp_path / "gone", tmp_path / "bin"
    gone.mkdir()
    (path / "mlk").mkdir(parents=True)
    env = {"XDG_STATE_HOME": str(state), "PATH": f'{path}:{mlk.BUILD}:{os.environ["PATH"]}'}
    for script in ('exec -a foo "$MLK" "$@"', 'exec mlk "$@"', f'cd {gone} && rmdir {gone} && exec "$MLK" "$@"'):
        try:
            mlk.run("bash", "-c", script, "bash", "ls", "--local", check=0, env={**env, "MLK": str(mlk.MLK)})
        finally:
            mlk.run(mlk.MLK, "local", "down", env=env)


def test_mlk_wait_ignores_ctrl_c_if_the_calling_shell_ignores_it(embedded, name, experiment):
    run = embedded.mlk("submit", experiment(PROGRAM.format(name=name).replace("echo done", "sleep 3")), check=0).stdout.strip()
    waiting = subprocess.Popen(["sh", "-c", "trap '' INT; exec \"$@\"", "sh", mlk.MLK, "wait", "--local", run], text=True,
                               env={**os.environ, **embedded.env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        mlk.wait_until(lambda: embedded.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", "the run to go", interval=0.1)
        waiting.send_signal(signal.SIGINT)
        said = waiting.communicate(timeout=60 * mlk.SLOW)
        assert waiting.returncode == 0, said
    finally:
        waiting.kill()
        waiting.wait()
