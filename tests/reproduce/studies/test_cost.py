from diverset.reproduce.run_studies import run_studies


def test_the_papers_ratios_are_beside_ours(experiment, read_page):
    assert run_studies("cost", experiment) == 0
    text, numbers = read_page(experiment, "cost")
    assert "| ours (sets) | 16 | 16 |" in text and "| SCAN | 1,280 |" in text
    flops = {name: cost["pair_flops"] for name, cost in numbers["measured"].items()}
    assert flops["ours (sets)"] == 16 * flops["VSE-infinity"]
    assert flops["SCAN"] > flops["ours (sets)"]
    assert len(flops) == 11 and flops["SGRAF"] > flops["SCAN"]
    assert numbers["flops_at_paper_size"]["SGRAF"] > numbers["flops_at_paper_size"]["SGR"]
    assert "| NAAF | - |" in text
    assert (experiment.out / "cost.png").exists()
