"""A job of two nodes on a real SLURM: one driver, and a Ray of its own over both."""

import json
import subprocess
from pathlib import Path

import pytest
from cheap_jobs import launched, python, settings
from small_slurm import SmallSlurm

from turngrid.train.launch.slurm import wait

DRIVER = """
import json, os, subprocess, sys
from pathlib import Path
import ray
from omegaconf import OmegaConf
from turngrid.tasks.run import Run
from turngrid.tasks.stage_process import stage_variables
config = OmegaConf.create({"seed": 7, "trainer": {"device": "cuda"}})
os.environ.update(stage_variables(Run(config, Path(sys.argv[2]).parent)))
with Path(sys.argv[1]).open("a") as file:
    file.write("driver\\n")
ray.init()

@ray.remote(num_gpus=2, num_cpus=0)
class Worker:
    def where(self):
        return ray.get_runtime_context().get_node_id(), os.environ.get("TURNGRID_SEED")

workers = [Worker.remote() for _ in range(2)]
found = ray.get([worker.where.remote() for worker in workers])
facts = {
    "nodes": sorted({node for node, _ in found}),
    "seeds": sorted({seed for _, seed in found}),
    "gpus": ray.cluster_resources()["GPU"],
    "place": os.environ["RAY_TMPDIR"],
    "address": os.environ["RAY_ADDRESS"],
}
code = "import ray; ray.init(address='auto')"
environment = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
stranger = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
facts |= {"stranger": stranger.returncode, "words": stranger.stderr[-3000:]}
Path(sys.argv[2]).write_text(json.dumps(facts))
"""


@pytest.mark.slow
def test_a_job_of_two_nodes_has_one_driver_and_a_ray_of_its_own(slurm: SmallSlurm, tmp_path: Path) -> None:
    nodes = ("cluster=slurm_multinode", "trainer.n_gpus_per_node=2", "cluster.slurm.cpus_per_task=2")
    driver = python(DRIVER, tmp_path / "drivers", tmp_path / "facts")
    jobs = launched(tmp_path / "slurm", settings(*nodes), {"two nodes": driver})
    assert wait(jobs, 60) == [], next(iter(jobs.values())).stdout()[-5000:]
    facts = json.loads((tmp_path / "facts").read_text())
    assert (tmp_path / "drivers").read_text() == "driver\n"
    assert len(facts["nodes"]) == 2 and facts["gpus"] == 4
    assert facts["seeds"] == ["7"], "a stage's environment reaches the workers of every node"
    assert facts["stranger"] != 0 and "token" in facts["words"].lower(), facts["words"]
    assert not Path(facts["place"]).exists(), "its temporary folder goes with it"
    (meeting,) = (tmp_path / "slurm").glob("*.ray")
    assert [path.stat().st_mode & 0o077 for path in (meeting, meeting / "head.json")] == [0, 0]
    port = facts["address"].split(":")[1]
    assert subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout == ""
