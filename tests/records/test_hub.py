"""A model of the hub that cannot be had is refused at once: with a hub that really answers, and one
that does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from turngrid.config.base import ROOT
from turngrid.records.models.locate import SECONDS, ModelError, check_hub
from turngrid.train.app import main

ASK = "import sys; from turngrid.records.models.locate import check_hub; check_hub(sys.argv[1])"
ANSWERS = {  # repository -> status and the hub's own code for it, as huggingface_hub reads them
    "there/model": (200, ""),
    "nobodys/model": (404, "RepoNotFound"),
    "gated/model": (403, "GatedRepo"),
    "broken/model": (500, ""),
}


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        owner, name = self.path.split("/")[1:3]
        if owner == "silent":
            time.sleep(2 * SECONDS)
            return
        status, code = ANSWERS[f"{owner}/{name}"]
        self.send_response(status)
        for header, value in {"X-Error-Code": code, "ETag": '"1"', "X-Repo-Commit": "1" * 40}.items():
            if value:
                self.send_header(header, value)
        self.send_header("Content-Length", "2" if status == 200 else "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not on stderr."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def asked(name: str, endpoint: str, home: Path) -> str:
    """The last line of a fresh process that asks this hub: its address is read when the client is
    imported."""
    without = {
        key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE" and "proxy" not in key.lower()
    }
    environment = {**without, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    command = [sys.executable, "-P", "-c", ASK, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    return (
        done.stderr.strip().splitlines()[-1].removeprefix("turngrid.records.models.locate.ModelError: ")
        if done.stderr
        else ""
    )


def test_what_the_hub_answers(hub: str, tmp_path: Path) -> None:
    assert asked("there/model", hub, tmp_path) == ""
    for name, answer in {"nobodys": "Repository Not Found", "gated": "gated repo", "broken": "500"}.items():
        line = asked(f"{name}/model", hub, tmp_path)
        assert line.startswith(f"model.path={name}/model: ") and answer in line, line
        assert "; use model.path=FOLDER" in line


def test_a_hub_that_is_not_there_or_never_answers(hub: str, tmp_path: Path) -> None:
    assert "refused" in asked("there/model", "http://127.0.0.1:9", tmp_path)
    assert "timed out" in asked("silent/model", hub, tmp_path)


def test_what_lies_here_is_not_asked_for(tmp_path: Path) -> None:
    """Tests run offline: a question would be refused."""
    for path in ("asset://tiny", "packaged://smollm2_135m", str(tmp_path), f"run://{tmp_path}"):
        check_hub(path)
    with pytest.raises(ModelError, match="model.path=two words: Repo id"):
        check_hub("two words")


def test_a_run_ends_before_a_game_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    small = ["model.sft.tokens_per_pass=1024", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"]
    folders = [f"output_dir={runs}", f"env.cache_dir={tmp_path / 'cache'}"]
    assert main(["model=qwen2.5_0.5b", "scale=laptop", *small, *folders]) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith("turngrid: model.path=Qwen/Qwen2.5-0.5B-Instruct: ") and "; use model.path=FOLDER" in line
    assert not (tmp_path / "cache").exists()
    assert not [file for file in runs.rglob("*") if file.parent.name == "tasks"]
