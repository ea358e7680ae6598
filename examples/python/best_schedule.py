"""What does a better order of work gain? A job's schedule, the classic ones, and the best that a search finds; writes its timeline.

    python3 examples/python/best_schedule.py [JOB [PAGE.html]]
"""
import pathlib
import sys

import tombolo

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]


def main(job=EXAMPLES / "toy" / "job.toml", page=None):
    for policy in (None, "gpipe", "1f1b", "zb-h1", "best"):
        try:
            answer = tombolo.simulate(job, policy=policy)
        except tombolo.TomboloError as error:
            print(f"{policy:10} {error.message}")
            continue
        print(f"{policy or 'the job':10} {1000 * answer.iteration_s:8.2f} ms, {100 * answer.utilization:.0f} % of the time computes")
    print(f"best: {answer.policy['winner']}")
    if page:
        answer.save_page(page)
        print(f"wrote {page}")


if __name__ == "__main__":
    main(*sys.argv[1:])
