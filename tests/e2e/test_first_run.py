from tests.daemon import DaemonProcess, message


def test_an_inbound_that_was_created_answers_and_streams(daemon: DaemonProcess) -> None:
    inbound = daemon.create_inbound(name="reports")

    task = daemon.send(inbound, "hello there")
    frames = list(daemon.stream(inbound, "SendStreamingMessage", {"message": message("one two")}))

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hello there"}]
    assert [number for number, _ in frames] == list(range(1, len(frames) + 1))
    last = frames[-1][1]["result"]["task"]
    assert last["artifacts"][0]["parts"] == [{"text": "one two"}]
    assert daemon.terminate() == 0
