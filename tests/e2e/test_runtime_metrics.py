"""What runs of mlk-runtime report in their metrics lines."""

import json

import pytest
from runtime_processes import ENDLESS, Run, assert_trained

pytestmark = pytest.mark.runtime

MODES = [("ps", "async"), ("ps", "sync"), ("ps", {"staleness": 2}), ("allreduce", "sync")]
mode_and_consistency = pytest.mark.parametrize("mode,consistency", MODES, ids=["async", "sync", "staleness", "allreduce"])


def start_with_a_slow_worker(run, rank, delay_ms):
    """Starts all processes. The steps of worker `rank` take longer than those of the other workers."""
    config = json.loads((run.folder / "config.json").read_text())
    config["step_delay_ms"] = delay_ms
    slow = run.folder / "slow.json"
    slow.write_text(json.dumps(config))
    servers = [run.start("server", rank) for rank in range(run.servers_count)]
    workers = [run.start("worker", r, **({"MLK_CONFIG": str(slow)} if r == rank else {})) for r in range(run.workers_count)]
    return servers, workers


@mode_and_consistency
def test_metrics_lines_report_the_state_of_the_run_and_how_the_time_of_a_step_is_spent(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, step_delay_ms=4) as run:
        servers, workers = run.start_all()
        assert_trained(servers + workers, run.steps, workers[0])
        lines = [{key: float(value) for key, value in line.items() if key != "slowest"} for line in workers[0].lines()]
        for line in lines[1:]:
            if "compute_ms" in line:  # the line has no times if other workers have made all steps since the last report
                assert line["compute_ms"] >= 4, "the delay stands for a slower device"
                assert line["data_ms"] >= 0 and line["comm_ms"] > 0
            assert line["world"] == 2 and line["generation"] >= 1 and line["restarts"] == 0
            assert "lost_samples" not in line
        stale = [line for line in lines if "staleness" in line]
        assert bool(stale) == (consistency != "sync")
        for line in stale:
            assert 0 <= line["staleness"] <= line["staleness_max"]
        metrics = workers[0].result()["metrics"]
        assert set(metrics) >= {"loss", "accuracy", "samples_per_s", "world", "generation", "restarts"}
        assert any("compute_ms" in line for line in lines)
        assert list(workers[0].lines()[0])[:3] == ["step", "epoch", "loss"]


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_observed_staleness_reaches_its_bound_and_never_exceeds_the_bound(tmp_path, bound):
    with Run(tmp_path, "ps", workers=3, consistency={"staleness": bound}, step_delay_ms=1) as run:
        servers, workers = start_with_a_slow_worker(run, 2, 12)
        assert_trained(servers + workers, run.steps, workers[0])
        observed = [int(line["staleness_max"]) for line in workers[0].lines() if "staleness_max" in line]
        assert max(observed) == bound, "the others go as far ahead of the slow one as they may, and no further"


@mode_and_consistency
def test_metrics_lines_name_the_slowest_worker(tmp_path, mode, consistency):
    with Run(tmp_path, mode, workers=3, consistency=consistency, steps=150, step_delay_ms=3) as run:
        servers, workers = start_with_a_slow_worker(run, 1, 30)
        assert_trained(servers + workers, run.steps, workers[0])
        assert workers[0].lines()[-1]["slowest"] == "worker/1"
        assert workers[0].result()["metrics"]["slowest"] == "worker/1"


@pytest.mark.parametrize("mode,consistency", [("ps", "async"), ("ps", "sync"), ("allreduce", "sync")], ids=["async", "sync", "allreduce"])
def test_a_new_reporter_also_counts_the_workers_that_were_lost_before_its_start(tmp_path, mode, consistency):
    with Run(tmp_path, mode, workers=3, minimum=1, consistency=consistency, steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[0].kill()  # worker 0 is the worker that reports
        run.until(lambda: any(line.get("restarts") == "1" for line in workers[1].lines()), "the loss on worker 1's lines")
        workers[0] = run.start("worker", 0)
        run.until(lambda: workers[0].lines(), "worker 0 to report again")
        run.until_world(workers[0], 3)
        line = workers[0].lines()[-1]
        assert line["restarts"] == "1"
        assert line["world"] == "3"
        if consistency == "async":
            assert line.get("lost_samples", "0") in ("0", "16"), "at most a batch for each kill"
        else:
            assert "lost_samples" not in line
        run.finish(servers, workers)
        metrics, line = workers[0].result()["metrics"], workers[0].lines()[-1]
        for key in ("restarts", "world", "lost_samples"):
            assert metrics.get(key, 0) == int(line.get(key, 0)), "the result is of the last line"


def test_the_counts_of_restarts_and_lost_samples_are_kept_after_a_server_was_lost(tmp_path):
    with Run(tmp_path, "ps", workers=2, minimum=1, consistency="async", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[1].kill()
        run.until(lambda: any(line["restarts"] == "1" for line in workers[0].lines()), "the loss of worker 1")
        servers[0].kill()
        servers[0] = run.start("server", 0)
        run.until(lambda: any(line["restarts"] == "2" for line in workers[0].lines()), "the loss of server 0")
        assert int(workers[0].lines()[-1]["lost_samples"]) in (16, 32), "a batch for each slice that was under way"
        workers[1] = run.start("worker", 1)
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
