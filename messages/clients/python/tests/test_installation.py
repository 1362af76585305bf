"""The real binary, as tests start it."""

import json

from installation import Installation, kill, pause, resume


def test_an_installation_serves_and_workers_come_and_go() -> None:
    with Installation() as running:
        running.create_tag("order", "--step", "1000")
        tags = json.loads(running.run("tag", "ls", "order", "--json"))["tags"]
        assert [tag["tag"] for tag in tags] == ["order"]
        worker = running.start_worker()
        pause(worker)
        resume(worker)
        kill(worker)
        assert worker.returncode == -9
        assert running.server.poll() is None
    assert running.server.poll() is not None
