"""What people type, and what they do not mean to: values, flags, Hydra's own keys, places to write
to."""

from __future__ import annotations

# fmt: off
NUMBERS = (
    "0", "1", "-1", "2", "3", "-7", "7", "0.0", "0.5", "1.0", "1.5", "-0.5", "-0.001", "1e-9", "1e-400", "1e9",
    "1e30", "-1e30", "1e400", "1e3", "100000000", "99999999999999999999", "-99999999999999999999", "nan", "NaN",
    "-nan", ".nan", "inf", "-inf", ".inf", "Infinity", "1_000", "0x10", "0b1", "007", "1e", "--1", "+1", "1.", ".5",
    "1/2", "2**3", "1,5", "١", "½", "3px", "10%",
)
WORDS = (
    "seven", "zwölf", "true", "false", "True", "yes", "on", "null", "None", "none", "NULL", "???", "nope", "default",
    "auto", "a.b", "a/b", "a:b", "a@b", "~", "~/x", "/", ".", "..", "-", "--", "-x", "@", "#", "$", "%", "&", "*",
    "?", "!", "ü", "数", "🙂", "\u202eabc", "naïve", "e\u0301", "", " ", "a b", "''", '""', "'a b'", '"x=y"', "a=b",
    "a\nb", "a\tb", "x" * 3000, "\\", "\\,",
)
UNBALANCED = (
    "[", "]", "{", "}", "(", ")", "'", '"', "[1", "1]", "{a: 1", "a: 1}", "[1,2", "[[1]", "'x", 'x"', "{a", "[,]",
    "{:}", "(1)", "[1 2]",
)
LISTS = (
    "[]", "[1]", "[1,2]", "[seven]", "[a,b]", "[null]", "[nan]", "[-1]", "[[1]]", "[1,[2,{a: 3}]]", "[0.4,0.4]",
    "[true]", "[{}]",
)
DICTS = (
    "{}", "{a: 1}", "{1: 2}", "{a: {b: c}}", "{a: [1]}", "{nan: 1}", "{'': 1}", "{name: x}", "{a: -1}", "{null: 1}",
)
RESOLVED = (
    "${seed}", "${nope}", "${env.nope}", "${oc.env:NOPE_NOT_SET}", "${oc.env:HOME}", "${oc.env:NOPE_NOT_SET,3}",
    "${oc.env:NOPE_NOT_SET,null}", "${", "${}", "${nope:1}", "${eval.temperatures}", "${eval.temperatures[0]}",
    "${eval.temperatures[5]}", "${.}", "${..}", "${.nope}", "${...seed}", "${env}", "${now:%Y}", "${now:}",
    "${hydra:job.name}", "${hydra:runtime.choices.nope}", "${oc.decode:seven}", "${oc.decode:}", "${oc.create:{a:1}}",
    "${oc.select:nope,2}", "${oc.deprecated:seed}", "${oc.dict.keys:env}", "${when_async:1,2}",
    "${updates_of_a_step:x}", "${gpu_rollout:}", "x${seed}", "${seed}${seed}", "${env.${seed}}",
    "${actor_rollout_ref.rollout.n}", "${data.train_batch_size}", "${trainer}", "???",
)
SWEEPS = (
    "1,2", "a,b", "1,", ",1", ",", "choice(1,2)", "choice()", "choice(a)", "range(1,3)", "range(3)", "range(0,1,0)",
    "range(1,3,-1)", "range(a,b)", "interval(0,1)", "glob(*)", "glob([a*,b])", "sort(3,1)", "shuffle(1,2)",
    "tag(a,choice(1,2))", "int(3.5)", "int(x)", "float(x)", "float(2)", "str(3)", "bool(2)", "bool(seven)",
    "json_str({a:1})", "extend_list(1)", "nope(1)", "choice(", "choice(1))", "sort(a,1)", "cast(1)",
)
POOLS = ((NUMBERS, 10), (WORDS, 5), (UNBALANCED, 2), (LISTS, 2), (DICTS, 2), (RESOLVED, 3), (SWEEPS, 2))  # with weights
# words that belong together, and what a refusal of them says
FLAGS = (
    (("--package=",), ("--package",)),
    (("--package=env",), ("--package",)),
    (("--cfg", "job"), ("--cfg",)),
    (("--cfg=job", "--package=env"), ("--cfg", "--package")),
    (("--cfg=job", "--package=seed"), ("--package",)),
    (("--cfg=job", "--package=env.task"), ("--package",)),
    (("--cfg=job", "--resolve"), ("--cfg", "--resolve")),
    (("--cfg=hydra",), ("--cfg",)),
    (("--cfg=all",), ("--cfg",)),
    (("--resolve",), ("--resolve",)),
    (("--info",), ("--info",)),
    (("--info=defaults",), ("--info",)),
    (("--multirun",), ("--multirun",)),
    (("-m",), ("-m",)),
    (("-m", "--cfg=job"), ("--cfg", "-m")),
    (("--run", "-m"), ("--run", "-m", "--multirun")),
    (("--shell-completion",), ("--shell-completion",)),
    (("--help",), ("--help",)),
    (("--hydra-help",), ("--hydra-help",)),
    (("--version",), ("--version",)),
    (("-",), ("-",)),
    (("--",), ("--",)),
    (("-m", "sweep=table10_algorithms", "seed="), ("seed",)),
)
WRONG_FLAGS = (
    (("--config-dir=/nope",), ("--config-dir", "/nope")),
    (("--config-dir", ""), ("--config-dir",)),
    (("--config-dir", "README.md"), ("--config-dir", "README.md")),
    (("-cd=nope",), ("--config-dir",)),
    (("--config-name=",), ("--config-name",)),
    (("--config-name", "other"), ("--config-name",)),
    (("--config-path=",), ("--config-path",)),
    (("--config-path=/nope",), ("--config-path",)),
    (("--package=nope",), ("--package",)),
    (("--cfg",), ("--cfg",)),
    (("--cfg=jbo",), ("--cfg",)),
    (("--cfg=job", "--package=env.nope"), ("--package",)),
    (("--cfg=job", "--package=env..task"), ("--package",)),
    (("--cfg=job", "--package=${seed}"), ("--package",)),
    (("--cfg=job", "--package=env["), ("--package",)),
    (("--info=nope",), ("--info",)),
    (("--experimental-rerun=nope",), ("--experimental-rerun",)),
    (("--experimental-rerun",), ("--experimental-rerun",)),
    (("--nope",), ("--nope",)),
    (("--helpp",), ("--helpp",)),
    (("-x",), ("-x",)),
    (("---",), ("---",)),
    (("--=3",), ("--",)),
    (("-m", "sweep=tabel10_algorithms"), ("sweep",)),
    (("-m", "sweep="), ("sweep",)),
    (("-m", "sweep=null"), ("sweep",)),
    (("-m", "sweep=[a]"), ("sweep",)),
    (("-m", "sweep=../conf/config"), ("sweep",)),
    (("-m", "sweep=README.md"), ("sweep",)),
    (("sweep=table10_algorithms",), ("sweep",)),
    (("-m", "sweep=table10_algorithms", "scale=nope"), ("scale",)),
    (("-m", "sweep=table10_algorithms", "seed=seven"), ("seed",)),
    (("-m", "sweep=table10_algorithms", "dry_run=maybe"), ("dry_run",)),
    (("-m", "sweep=table10_algorithms", "only.algo=nope"), ("only.algo",)),
    (("-m", "sweep=table10_algorithms", "only.nope=1"), ("only.nope",)),
    (("-m", "sweep=table10_algorithms", "only.=1"), ("only.",)),
    (("-m", "sweep=table10_algorithms", "only.algo"), ("only.algo",)),
)
TELLING = ("--cfg", "--help", "--hydra-help", "--version", "--info", "--shell-completion")  # nothing would run
HYDRA = (
    "hydra=null", "hydra=3", "~hydra", "hydra.nope=1", "+hydra.nope=1", "hydra.run.dir=nope", "hydra.run.dir=",
    "hydra.run=3", "hydra.verbose=true", "hydra.mode=MULTIRUN", "hydra.mode=nope", "hydra.job.chdir=true",
    "hydra.job.chdir=seven", "hydra.searchpath=[pkg://nope]", "hydra.searchpath=nope",
    "hydra.searchpath=[file:///nope]", "hydra/launcher=nope", "hydra/launcher=basic", "hydra/sweeper=nope",
    "hydra/nope=1", "hydra/job_logging=nope", "hydra.launcher=nope", "hydra.output_subdir=x",
    "hydra.sweep.dir=${nope}", "hydra.run.dir=${seed}", "hydra.callbacks={a: {_target_: nope}}",
    "hydra.job.env_set.NOPE=1", "+hydra.job.env_set.NOPE=1",
)
NEW = (
    "nope", "env.nope", "trainer.nope", "actor_rollout_ref.rollout.nope", "seed.x", "env.task.x", "a.b.c", "1", "a b",
    "ü", "nope.", ".nope", "..", "a..b", "env/x", "x@y",
)
# for output_dir: files, what lies below them, what is no folder's name; and what may be one, or
# where only root may write
WRONG_PLACES = (
    "README.md", "README.md/runs", "/dev/null", "/dev/null/runs", "x" * 300, "a/" * 2100, "[a]", "{a: 1}", "null",
    "${nope}",
)
PLACES = (
    "", "/proc/nope", "''", "a\nb", "nan", "3", "ü/数", "deep/er/still",
)
VARIABLES = (
    "HOME", "PATH", "USER", "TMPDIR", "TURNGRID_CACHE", "CUDA_VISIBLE_DEVICES", "PWD",
)
LETTERS = "abcdefghijklmnopqrstuvwxyz_0123456789"
# of a key {k} and a value {v}: Hydra's signs, and signs that are nearly Hydra's
FORMS = (
    "+{k}={v}", "++{k}={v}", "~{k}", "~{k}={v}", "~{k}=", "{k}=={v}", "{k}=", "{k} ={v}", "{k}= {v}", " {k}={v}",
    "{k}.0={v}", "{k}[0]={v}",
)
WRONG_FORMS = (
    "+++{k}={v}", "{k}@pkg={v}", "{k}@a:b={v}", "={v}", "{k}", "{k}:{v}", "-{k}={v}", "--{k}={v}", ".{k}={v}",
    "{k}.={v}", "{k}/x={v}", "/{k}={v}", "${{{k}}}={v}", "'{k}'={v}", "{k}+={v}", "~~{k}", "@{k}={v}", "{k}@={v}",
)
# of a group {g}, options {o} and {p} and a value {v}; of a node {n}
GROUP_FORMS = (
    "{g}={o}", "{g}={o}", "{g}={o}", "{g}={o}", "{g}=[{o}]", "{g}=[{o},{p}]", "{g}=[]", "{g}={{}}", "{g}={{a: 1}}",
    "{g}=null", "{g}=", "~{g}", "~{g}={o}", "+{g}={o}", "++{g}={o}", "{g}@x={o}", "{g}@_global_={o}", "{g}@:x={o}",
    "/{g}={o}", "{g}={o},{p}", "{g}=choice({o},{p})", "{g}=glob(*)", "{g}=range(1,3)", "{g}={o}.yaml", "{g}=/{o}",
    "{g}=../{g}/{o}", "{g}={o}x", "{g}=' {o}'", '{g}="{o}"', "{g}=1", "{g}=nan", "{g}=true", "{g}=${{{g}.name}}",
    "{g}=${{nope}}", "{g}={v}", "{g}={v}",
)
NODE_FORMS = (
    "{n}={v}", "{n}={{nope: 1}}", "{n}={{}}", "~{n}", "+{n}={v}", "++{n}={v}", "{n}=[1]", "{n}=null",
)
# sound only together with other keys
NEEDS_OTHERS = frozenset({"critic.ppo_mini_batch_size", "budget.experience_cost", "demos.alternatives"})
# fmt: on
