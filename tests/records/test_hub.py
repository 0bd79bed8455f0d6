"""A model of the hub that cannot be had is refused at once: with a hub that really answers, and one
that does not."""

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
from turngrid.records.models.locate import SECONDS
from turngrid.train.app import main

ASK = """
import sys
from turngrid.records.models.locate import ModelError, check_hub
for name in sys.argv[1:]:
    try:
        print(check_hub(name))
    except ModelError as error:
        print(error)
"""
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
    Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def asked(endpoint: str, home: Path, *names: str) -> list[str]:
    """What a fresh process that asks this hub prints of each: its address is read when the client
    is imported."""
    without = {
        key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE" and "proxy" not in key.lower()
    }
    environment = {**without, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    command = [sys.executable, "-P", "-c", ASK, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=True)
    return done.stdout.splitlines()


def test_what_the_hub_answers_if_it_does(hub: str, tmp_path: Path) -> None:
    answers = {"nobodys": "Repository Not Found", "gated": "gated repo", "broken": "500", "silent": "timed out"}
    there, *lines = asked(hub, tmp_path, *(f"{name}/model" for name in ("there", *answers)))
    assert there == "None"
    for (name, answer), line in zip(answers.items(), lines, strict=True):
        assert line.startswith(f"model.path={name}/model: ") and answer in line, line
        assert "; use model.path=FOLDER" in line
    path = f"run://{tmp_path}"
    line, *here = asked("http://127.0.0.1:9", tmp_path, "there/model", "asset://tiny", str(tmp_path), path)
    assert "refused" in line and here == ["None"] * 3, "what lies here is not asked for"


def test_a_run_ends_before_a_game_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    small = ["model.sft.tokens_per_pass=1024", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"]
    folders = [f"output_dir={runs}", f"env.cache_dir={tmp_path / 'cache'}"]
    assert main(["model=qwen2.5_0.5b", "scale=laptop", *small, *folders]) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith("turngrid: model.path=Qwen/Qwen2.5-0.5B-Instruct: ") and "; use model.path=FOLDER" in line
    assert not (tmp_path / "cache").exists()
    assert not [file for file in runs.rglob("*") if file.parent.name == "tasks"]
