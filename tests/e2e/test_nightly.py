"""`perfguard nightly`, `pin`, `ack`, `history` and `report --site` as processes."""

import json
from xml.etree import ElementTree

from cli_support import QUICK

CONFIG = f"""{QUICK}
margin = 0.2
alpha = 0.05
max_blocks = 2
max_confirm_blocks = 2
[workload.quick]
command = "sh bench.sh"
metrics = [{{name = "seconds", unit = "s", better = "lower"}}]
[nightly]
workloads = ["quick"]
[hooks]
on_regression = "cat > ../regression.json"
"""


def bench(seconds: float) -> str:
    return f"""printf '{{"seconds": {seconds}}}\\n'\n"""


def nightly(project, *arguments, code):
    found = json.loads(project.run("nightly", "--quiet", "--json", "-", *arguments, code=code).stdout)
    assert found["exit_code"] == code
    assert found["schema"] == "perfguard/nightly@1"
    return found


def test_nights_on_the_command_line_from_the_pin_to_the_accepted_regression_and_the_site(project):
    project.commit({"bench.sh": bench(1.0), "perfguard.toml": CONFIG})
    assert "no workload 'fakke'; did you mean 'fake'?" in project.run("pin", "HEAD", "-w", "fakke", code=2).stderr
    assert "next: perfguard pin v1.0" in project.run("nightly", code=2).stderr
    assert "pinned for all workloads" in project.run("pin", "HEAD").stdout
    assert "is pinned already" in project.run("pin", "HEAD").stdout
    assert "all workloads: " in project.run("pin").stdout
    first = nightly(project, code=0)
    assert first["workloads"][0]["comparison"]["outcome"] == "EQUIVALENT"
    assert nightly(project, "--only-changed", code=0)["workloads"][0]["state"] == "unchanged"

    slow = project.commit({"bench.sh": bench(1.5)}, "<script>alert(1)</script>")
    junit = project.folder / "junit.xml"
    red = nightly(project, "--no-bisect", "--junit", str(junit), code=1)
    assert ElementTree.parse(junit).getroot()[0].get("failures") == "1"
    assert json.loads((project.folder / "regression.json").read_text())["outcome"] == "REGRESSION"
    (waiting,) = red["waiting"]
    assert (waiting["bad"], waiting["cause"]) == (slow, "REGRESSION")

    shown = project.run("nightly", code=1).stdout
    assert f"✗ CULPRIT: {slow[:12]}" in shown
    refused = project.run("ack", first["workloads"][0]["campaign"], "--until", "2999-01-01", "--reason", "x", code=2)
    assert "ended EQUIVALENT; only a REGRESSION can be accepted" in refused.stderr
    campaign = red["workloads"][0]["campaign"]
    assert "is over already" in project.run("ack", campaign, "--until", "2020-01-01", "--reason", "x", code=2).stderr
    assert "is not a day" in project.run("ack", campaign, "--until", "soon", "--reason", "x", code=2).stderr
    assert "no reason" in project.run("ack", campaign, "--until", "2999-01-01", "--reason", " ", code=2).stderr
    project.run("ack", campaign, "--until", "2999-01-01", "--reason", "agreed")
    done = project.run("nightly", "--junit", str(junit))
    assert "accepted until 2999-01-01: agreed" in done.stdout
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")

    history = json.loads(project.run("history", "-w", "quick", "--json", "-").stdout)
    (series,) = history["series"]
    assert (series["workload"], series["points"]) == ("quick", 4)
    assert "no night measured 'quik'; measured: quick" in project.run("history", "-w", "quik", code=2).stderr

    site = project.folder / "site"
    assert "pages" in project.run("report", "--site", str(site)).stderr
    assert " 0 written" in project.run("report", "--site", str(site)).stderr
    for page in site.rglob("*.html"):
        assert "<script>alert" not in page.read_text()
    assert "holds something that is no site" in project.run("report", "--site", str(project.repo), code=2).stderr


def test_a_reference_in_the_file_is_followed_and_cannot_be_pinned_over(project):
    config = CONFIG.replace("[nightly]", '[nightly]\nreference = "v1"')
    project.commit({"bench.sh": bench(1.0), "perfguard.toml": config})
    project.git("tag", "v1")
    assert "names the reference: 'v1'" in project.run("pin", "HEAD", code=2).stderr
    night = nightly(project, code=0)
    assert night["workloads"][0]["pin"]["revision"] == "v1"
    assert "v1" in project.run("pin").stdout
