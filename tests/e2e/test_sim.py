"""fermata-sim from the command line: its words and keys, the same bytes from the same seed, and what it says of bad files."""

import json
import subprocess

import pytest

from system import PICTURES

MODELS = "name,alpha_ms,beta_ms,slo_ms\nfast,1,5,25\nslow,2,8,60\n"
RUN_KEYS = {"offered_rps", "goodput_rps", "bad_rate", "worst_model_bad_rate", "gpu_busy_fraction", "gpus_used", "median_batch", "p50_ms",
            "p99_ms", "preemptions"}


@pytest.fixture
def sim(bin_dir, tmp_path):
    """Runs fermata-sim in a folder of its own, where models.csv is."""
    (tmp_path / "models.csv").write_text(MODELS)

    def run(command, code=0):
        done = subprocess.run([bin_dir / "fermata-sim", *command.split()], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


RUN = "run --models models.csv --gpus 4 --rate 1500 --seconds 2"


@pytest.mark.parametrize("policy", ["fermata", "deferred", "eager", "timeout", "clockwork", "nexus", "shepherd"])
def test_run_has_its_keys_and_repeats_itself(sim, policy):
    command = f"{RUN} --policy {policy} --seed 7 --arrivals gamma:0.3 --popularity zipf:0.9 --net rdma --jitter 0.05 --json"
    first = sim(command)
    assert RUN_KEYS <= json.loads(first).keys()
    assert first == sim(command)
    assert first != sim(command.replace("--seed 7", "--seed 8"))


def test_goodput_and_bound(sim):
    found = json.loads(sim("goodput --models models.csv --gpus 4 --seconds 2 --json"))
    assert RUN_KEYS | {"goodput_rate_rps"} <= found.keys()
    bound = json.loads(sim("bound --models models.csv --gpus 4 --json"))
    assert 0.5 * bound["bound_rps"] < found["goodput_rate_rps"] <= 1.01 * bound["bound_rps"]
    assert found["worst_model_bad_rate"] <= 0.01


@pytest.mark.parametrize("arrivals", ["poisson", "uniform", "gamma:0.1", "mmpp:1.5,0.2", "closed:4,1"])
@pytest.mark.parametrize("net", ["zero", "rdma", "tcp", "delays.csv"])
def test_arrivals_and_networks(sim, tmp_path, arrivals, net):
    (tmp_path / "delays.csv").write_text("quantile,delay_us\n0,10\n0.99,50\n1,900\n")
    result = json.loads(sim(f"{RUN} --slo 300 --arrivals {arrivals} --net {net} --json"))
    assert result["goodput_rps"] > 0
    assert abs(result["goodput_rps"] - result["offered_rps"] * (1 - result["bad_rate"])) < 1


def test_what_is_counted_on_of_delays_may_be_said_or_learned(sim, tmp_path):
    """One message in ten takes 4 ms. To count on none of them loses those whose time is over, to count on each the time of all others."""
    (tmp_path / "delays.csv").write_text("quantile,delay_us\n0,100\n0.89,100\n0.9,4000\n1,4000\n")
    run = f"{RUN.replace('1500', '900')} --slo 30 --net delays.csv --json --net-quantile"
    lost = {part: json.loads(sim(f"{run} {part}"))["bad_rate"] for part in (".5", "learned", "1")}
    assert 2 * lost["learned"] < min(lost[".5"], lost["1"]), lost


def test_policies_say_what_they_take(sim):
    assert "\n  spare=latency           what idle GPUs are for" in sim("policies")


def test_each_model_has_its_latencies(sim, tmp_path):
    result = json.loads(sim(f"{RUN} --per-model --csv out --json"))
    text = sim(f"{RUN} --per-model").splitlines()
    rows = table(tmp_path / "out-models.csv")
    assert [row["model"] for row in rows] == [line.split()[0] for line in text[-len(rows):]]
    assert len({row["p50_ms"] for row in rows}) > 1
    for found, row, line in zip(result["models"], rows, text[-len(rows):], strict=True):
        assert 0 < found["p50_ms"] < found["p99_ms"]
        assert [f"{found[key]:.3f}" for key in ("p50_ms", "p99_ms")] == [row["p50_ms"], row["p99_ms"]] == line.split()[-2:]
    assert min(float(row["p99_ms"]) for row in rows) <= result["p99_ms"] <= max(float(row["p99_ms"]) for row in rows)
    assert "models" not in json.loads(sim(f"{RUN} --csv out --json"))


def table(path):
    header, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return [dict(zip(header, row)) for row in rows]


def test_tables_add_up(sim, tmp_path):
    result = json.loads(sim(f"{RUN} --csv out --json"))
    models, gpus, batches = (table(tmp_path / f"out-{name}.csv") for name in ("models", "gpus", "batches"))
    assert [row["model"] for row in models] == ["fast", "slow"]
    assert sum(int(row["arrived"]) for row in models) == round(result["offered_rps"] * 2)
    assert sum(float(row["busy_fraction"]) for row in gpus) / 4 == pytest.approx(result["gpu_busy_fraction"], abs=1e-5)
    assert sum(int(row["batches"]) for row in batches) == result["batches"]


def test_series_timeline_and_trace(sim, tmp_path):
    sim(f"{RUN} --series series.csv")
    series = table(tmp_path / "series.csv")
    assert len(series) >= 4 and sum(int(row["requests"]) for row in series) > 4000
    sim(f"{RUN} --timeline timeline.svg")
    assert (tmp_path / "timeline.svg").read_text().startswith("<svg")
    alone = (tmp_path / "series.csv").read_bytes(), (tmp_path / "timeline.svg").read_bytes()
    sim(f"{RUN} --series series.csv --timeline timeline.svg")
    assert alone == ((tmp_path / "series.csv").read_bytes(), (tmp_path / "timeline.svg").read_bytes())
    sim("trace --out trace.csv --functions 20 --minutes 3 --seed 5")
    assert json.loads(sim("run --models models.csv --gpus 4 --rate 300 --seconds 5 --trace trace.csv --json"))["offered_rps"] > 0


def test_another_policy_takes_over(sim, tmp_path):
    """Deferral waits for a whole batch, eagerness for none."""
    command = "run --line 1,5,40 --gpus 1 --rate 10 --arrivals uniform:0 --warmup 1 --seconds 2 --json"
    assert json.loads(sim(f"{command} --policy deferred"))["queue_p50_ms"] > 20
    assert json.loads(sim(f"{command} --policy deferred --switch 0.9,eager"))["queue_p50_ms"] == 0


def test_gpus_that_fail_are_not_used(sim, tmp_path):
    (tmp_path / "changes.csv").write_text("at_s,gpu,event\n1,0,down\n1,1,down\n")
    sim(f"{RUN} --policy eager --changes changes.csv --csv out --warmup 2")
    busy = [float(row["busy_fraction"]) for row in table(tmp_path / "out-gpus.csv")]
    assert busy[0] == busy[1] == 0 and min(busy[2:]) > 0.5


def test_advice_is_followed_after_a_delay(sim, tmp_path):
    sim("run --models models.csv --gpus 8 --rate 2000 --seconds 60 --autoscale 1 --provision 7 --series series.csv")
    gpus = [int(row["gpus"]) for row in table(tmp_path / "series.csv")]
    advice = [int(row["advice"]) for row in table(tmp_path / "series.csv")]
    asked = next(i for i, count in enumerate(advice) if count > 0)
    came = next(i for i, count in enumerate(gpus) if count > 1)
    assert came - asked in (7, 8) and gpus[-1] >= 3


PLANNED = """models:
  - {name: fast, rate: 1000, memory: 98MB, alpha_ms: 1, beta_ms: 5, slo_ms: 25, cluster: 0}
  - {name: slow, rate: 500, work_memory: 30MB, alpha_ms: 2, beta_ms: 8, slo_ms: 60, move_cost: 1}
"""
PLANNED_CSV = """name,rate,memory,work_memory,alpha_ms,beta_ms,slo_ms,max_batch,cluster,move_cost
fast, 1000,98MB,,1,5,25,,0,
slow,500,,30MB,2,8,60,,,1
"""


def test_it_reads_what_the_planner_reads(sim, tmp_path, bin_dir):
    """The same list, with the rates of its models: the simulator takes their sum and their shares."""
    (tmp_path / "list.yaml").write_text(PLANNED)
    (tmp_path / "list.csv").write_text(PLANNED_CSV)
    (tmp_path / "plain.csv").write_text(MODELS.replace("slo_ms", "slo_ms,weight").replace("25", "25,2").replace("60", "60,1"))
    plain = sim("run --models plain.csv --gpus 4 --rate 1500 --seconds 2 --json")
    for name in ("list.yaml", "list.csv"):
        assert sim(f"run --models {name} --gpus 4 --seconds 2 --json") == plain
        subprocess.run([bin_dir / "fermata", "plan", "nexus", "--models", tmp_path / name, "--gpus", "4"], check=True, timeout=60, capture_output=True)
    assert json.loads(sim("gpus --models list.yaml --seconds 2 --json"))["gpus_needed"] >= 1


def test_a_profile_says_how_many_gpus(sim, tmp_path, bin_dir):
    """The worked example of docs/simulator.md."""
    profile = subprocess.run([bin_dir / "fermata", "profile", "--csv", "--no-keep", "--seconds", "0.02", PICTURES.parent / "models" / "digits"],
                             check=True, timeout=60, capture_output=True, text=True)
    (tmp_path / "digits.csv").write_text(profile.stdout)
    needed = [json.loads(sim(f"gpus --models digits.csv --slo 100 --rate {rate} --seconds 2 --json"))["gpus_needed"] for rate in (1000, 500000)]
    assert needed[0] == 1 and needed[1] > 1


@pytest.mark.parametrize("command, told", [
    ("gpuz", "there is no command gpuz, did you mean gpus?"),
    ("nothing", "'nothing' is none of run, goodput, bound, gpus, trace, scenario, policies, mode"),
    ("", "a command is missing"),
    ("run --modelz x", "there is no option modelz, did you mean models?"),
    ("run --rate", "--rate needs a value"),
    ("run --models models.csv --gpus 4", "--rate is missing, and the file of the models has no column rate"),
    ("run --models models.csv --rate 1", "--gpus is missing"),
    ("run --models models.csv --gpus 0", "--gpus: 0 is not within 1 to 16,384"),
    ("run --models models.csv --gpus many", "--gpus: 'many' is not a number"),
    ("run --models none.csv --gpus 1 --rate 1", "none.csv: No such file or directory"),
    ("run --models bad.yaml --gpus 1 --rate 1", "bad.yaml:2: not a number: alpha_ms is 'x'"),
])
def test_a_mistake_is_one_line_that_names_it(sim, tmp_path, command, told):
    (tmp_path / "bad.yaml").write_text("models:\n  - {name: a, alpha_ms: x, beta_ms: 1}\n")
    said = sim(command, code=2)
    assert said.count("\n") == 1 and said.removesuffix("\n").removesuffix(" (see fermata-sim --help)") == f"fermata-sim: {told}"


SCENARIO = "title A\nvalue goodput_rps\n"
ROW = "row a ; b ; run --models {zoo}/models.csv --gpus 2 --rate 50 --seconds 1\n"
BAD_FILES = {
    "models.csv": [
        ("name,alpha_ms,slo_ms\n", 1, "missing column: beta_ms"),
        ("name,alpha_ms,beta_ms,slo_ms\na,1,2\n", 2, "missing field: slo_ms"),
        ("name,alpha_ms,beta_ms,slo_ms\na,-1,2,9\n", 2, "negative"),
        ("name,alpha_ms,beta_ms,slo_ms\na,nan,2,9\n", 2, "not a number"),
        ("name,alpha_ms,beta_ms,slo_ms\na,1,2,9\nb,1,2,2.5\n", 3, "below the latency of a batch of one"),
    ],
    "steps.csv": [
        ("at_s,factor\n", 1, "missing column"),
        ("at_s,model,factor\n0,*,-1\n", 2, "not negative"),
        ("at_s,model,factor\n0,*,nan\n", 2, "not negative"),
        ("at_s,model,factor\n0,none,1\n", 2, "no such model"),
        ("at_s,model,factor\n1,*,1\n0,*,1\n", 3, "order of time"),
    ],
    "trace.csv": [
        ("HashOwner,1\n", 1, "missing column"),
        ("HashOwner,HashApp,HashFunction,Trigger,1,2\na,b,c,d,5\n", 2, "fewer counts"),
        ("HashOwner,HashApp,HashFunction,Trigger,1,2\na,b,c,d,5,-1\n", 2, "negative"),
        ("HashOwner,HashApp,HashFunction,Trigger,1,2\na,b,c,d,5,nan\n", 2, "no number"),
    ],
    "net.csv": [
        ("delay\n", 1, "missing column"),
        ("quantile,delay_us\n0,-1\n1,5\n", 2, "out of range"),
        ("quantile,delay_us\n0,nan\n1,5\n", 2, "out of range"),
        ("quantile,delay_us\n0,9\n1,5\n", 3, "must rise"),
    ],
    "changes.csv": [
        ("at_s,gpu\n", 1, "missing column"),
        ("at_s,gpu,event\n0,99,down\n", 2, "no such GPU"),
        ("at_s,gpu,event\n-1,0,down\n", 2, "out of range"),
        ("at_s,gpu,event\n0,0,tired\n", 2, "neither up nor down"),
        ("at_s,gpu,event\n0,0,down x\n", 2, "not at_s,gpu,event"),
        ("at_s,gpu,event\n2,0,down\n1,0,up\n", 3, "order of time"),
    ],
}


@pytest.mark.parametrize("name,text,line,words", [(name, *case) for name, cases in BAD_FILES.items() for case in cases])
def test_a_bad_file_is_named_with_its_line(sim, tmp_path, name, text, line, words):
    (tmp_path / name).write_text(text)
    option = "" if name == "models.csv" else f" --{name.removesuffix('.csv')} {name}"
    said = sim(RUN + option, code=2)
    assert f"{name}:{line}: " in said and words in said


@pytest.mark.parametrize("text,line,words", [
    ("title A\n", 1, "needs title, value and at least one row"),
    (SCENARIO + "row a ; b\n", 3, "SERIES ; PLACE ; COMMAND"),
    (SCENARIO + ROW.replace("--gpus 2", "--gpus 0"), 3, "--gpus: 0 is not within"),
    (SCENARIO + ROW.replace("--rate 50", "--rate nan"), 3, "not a number"),
    (SCENARIO + ROW.replace("--rate 50", "--rate -5"), 3, "not within"),
    (SCENARIO + ROW.replace("{zoo}", "{where}"), 3, "unknown {name}"),
    (SCENARIO + ROW.replace("models.csv", "none.csv"), 3, "none.csv: No such file"),
    (SCENARIO + "row a ; b ; trace --out x.csv\n", 3, "run, goodput, bound or gpus"),
    (SCENARIO + "\n" + ROW + ROW.replace("--seconds", "--slo 2 --seconds"), 5, "SLO below the latency"),
    (SCENARIO.replace("goodput_rps", "fame") + ROW, 3, "the result has no fame"),
    (SCENARIO + "paper a ; b ; nan\n" + ROW, 3, "NUMBER"),
    (SCENARIO + "verse x\n" + ROW, 3, "not a line of a scenario"),
])
def test_a_bad_scenario_is_named_with_its_line(sim, tmp_path, text, line, words):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "models.csv").write_text(MODELS)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "x.txt").write_text(text)
    said = sim("scenario x --dir scenarios", code=2)
    assert f"scenarios/x.txt:{line}: " in said and words in said


def test_a_scenario_goes_on_where_it_was_stopped(sim, tmp_path):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "models.csv").write_text(MODELS)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "x.txt").write_text(SCENARIO + ROW)
    first = sim("scenario --all --dir scenarios --resume known.txt")
    known = (tmp_path / "known.txt").read_text().split("\t")
    assert known[0] == "goodput_rps"
    known[1] = "77"
    (tmp_path / "known.txt").write_text("\t".join(known))
    second = sim("scenario --all --dir scenarios --resume known.txt")
    assert first != second and "| b | 77 |" in second


@pytest.mark.parametrize("options", ["--gpus 0", "--gpus -1", "--gpus nan", "--gpus 2 --rate nan", "--gpus 2 --rate 0", "--gpus 2 --seed x",
                                     "--gpus 2 --policy none", "--gpus 2 --params a=b", "--gpus 2 --arrivals gamma:0", "--gpus 2 --slo 3",
                                     "--gpus 2 --changes none.csv", "--gpus 2 --switch 1,none", "--gpus 2 --switch eager", "--gpus 2 --autoscale 3", "--gpus 2 --bogus",
                                     "--gpus 2 --net-quantile 0", "--gpus 2 --net-quantile 1.1", "--gpus 2 --net-quantile guess"])
def test_bad_options_are_usage_errors(sim, options):
    assert sim(f"run --models models.csv --rate 10 --seconds 1 {options}", code=2).startswith("fermata-sim: ")
