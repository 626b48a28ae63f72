"""Actions: slots fill single arguments, nothing is done unasked, and a bad file is refused in one line."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold_runtime.actions import Actions


def written(tmp_path, text):
    path = tmp_path / "actions.toml"
    path.write_text(text, encoding="utf-8")
    return Actions.read(path)


def prediction(goal="lights_off", confidence=0.9, **slots):
    found = [{"name": name, "value": value, "start": 0, "end": 1} for name, value in slots.items()]
    return {"text": "...", "goal": goal, "confidence": confidence, "slots": found}


RUN = """
[lights_off]
run = ["lights", "--room={room}", "{state}"]
defaults = { state = "off" }
"""


def test_slots_and_defaults_fill_their_arguments(tmp_path):
    action = written(tmp_path, RUN).plan(prediction(room="kitchen"))
    assert action.run == ("lights", "--room=kitchen", "off")
    assert action.described() == "run 'lights' '--room=kitchen' 'off'"
    assert action.as_json() == {"run": ["lights", "--room=kitchen", "off"]}


@pytest.mark.parametrize(
    "found",
    [prediction(None), prediction("unknown_goal"), prediction(confidence=0.49, room="kitchen")],
    ids=["out of scope", "without an action", "not sure enough"],
)
def test_no_action_for(tmp_path, found):
    assert written(tmp_path, RUN).plan(found) is None


def test_a_slot_that_was_not_said_is_named(tmp_path):
    with pytest.raises(ValueError, match="lights_off: the action needs slot 'room'"):
        written(tmp_path, RUN).plan(prediction())


HOSTILE = [
    "; rm -rf /",
    "$(reboot)",
    "`id`",
    "a b\tc\nd",
    "'\" && x",
    "{state}",
    "%s",
    "../../etc/passwd",
    "\u202e",
    "|",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_stay_single_arguments(tmp_path, value):
    """As the program itself sees them."""
    seen = tmp_path / "seen.json"
    program = f"import json, sys; json.dump(sys.argv[1:], open({str(seen)!r}, 'w'))"
    actions = Actions({"lights_off": {"run": [sys.executable, "-c", program, "{room}", "end"]}})
    assert actions.act(actions.plan(prediction(room=value))) == "exit code 0"
    assert json.loads(seen.read_text()) == [value, "end"]


@given(st.text())
def test_whatever_is_said_the_number_of_arguments_stays(value):
    actions = Actions({"lights_off": {"run": ["x", "{room}", "y"]}})
    if value.startswith("-") or "\0" in value:
        with pytest.raises(ValueError, match="lights_off: "):
            actions.plan(prediction(room=value))
    else:
        assert actions.plan(prediction(room=value)).run == ("x", value, "y")


def test_a_value_cannot_become_an_option(tmp_path):
    actions = Actions({"lights_off": {"run": ["x", "{room}"]}})
    with pytest.raises(ValueError, match="begins with '-' is not passed on: '--all'"):
        actions.plan(prediction(room="--all"))


def test_addresses_hold_one_part_a_slot(tmp_path):
    actions = written(
        tmp_path, 'allow = ["http://127.0.0.1:1/"]\n[lights_off]\nopen = "http://127.0.0.1:1/off?room={room}"'
    )
    action = actions.plan(prediction(room="a/b?c=d&e=f#g @evil.com"))
    assert action.open == "http://127.0.0.1:1/off?room=a%2Fb%3Fc%3Dd%26e%3Df%23g%20%40evil.com"


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", "/secret")
        else:
            self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), Answering) as made:
        made.seen = []
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_an_address_is_called_and_redirects_are_not_followed(server):
    home = f"http://127.0.0.1:{server.server_port}/"
    actions = Actions({"lights_off": {"open": f"{home}{{room}}"}}, allow=(home,))
    assert actions.act(actions.plan(prediction(room="kitchen"))) == "status 200"
    with pytest.raises(OSError, match="is not followed"):
        actions.act(actions.plan(prediction(room="away")))
    assert server.seen == ["/kitchen", "/away"]
    with pytest.raises(ValueError, match="not on the allow-list"):
        Actions({}, allow=("http://127.0.0.1:1/",)).act(actions.plan(prediction(room="kitchen")))
    assert server.seen == ["/kitchen", "/away"]


def test_functions_are_called_if_they_are_registered():
    actions, called = Actions({"lights_off": {"call": "off"}}), []
    action = actions.plan(prediction(room="kitchen"))
    with pytest.raises(ValueError, match="no function 'off' is registered"):
        actions.act(action)
    assert actions.act(action, {"off": called.append}) == "called"
    assert called == [{"room": "kitchen"}]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a]\n", r"\[a\] must have exactly one of run, open, call"),
        ('[a]\nrun = ["x"]\ncall = "y"', "exactly one of"),
        ('[a]\nrun = "rm -rf /"', "run must be a list"),
        ('[a]\nrun = ["{room}"]', "a slot cannot"),
        ('[a]\nrun = ["x"]\nshell = true', "unknown key 'shell'"),
        ('[a]\nopen = "http://elsewhere/"', "must begin with an address of allow"),
        ('allow = ["http://host"]', "allow must list addresses"),
        ('allow = ["file:///etc/"]', "allow must list addresses"),
        ('allow = ["http://h/"]\n[a]\nopen = "http://h{x}.evil/"', "must begin with an address of allow"),
        ("least_confidence = 2", "least_confidence must be a number from 0 to 1"),
        ("[a", "actions.toml: "),
        ('[a]\ncall = ""', "call must name a function"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        written(tmp_path, text)


def test_slots_of_any_name_and_parts_that_would_lead_elsewhere():
    actions = Actions({"lights_off": {"run": ["book", "{fromloc.city-name}"]}})
    assert actions.plan(prediction(**{"fromloc.city-name": "Oslo"})).run == ("book", "Oslo")
    actions = Actions({"lights_off": {"open": "http://h/api/{room}/off"}}, allow=("http://h/api/",))
    for room in (".", ".."):
        with pytest.raises(ValueError, match="a part of an address that is"):
            actions.plan(prediction(room=room))


def test_a_slot_that_is_said_twice_has_no_action():
    """Which room is meant nobody knows; what the action does not ask for may be said as often as one likes."""
    found = prediction(room="kitchen")
    found["slots"] += [{"name": "room", "value": "hall", "start": 2, "end": 3}, {"name": "time", "value": "now"}]
    found["slots"] += [{"name": "time", "value": "later"}]
    for entry in ({"run": ["x", "{room}"]}, {"call": "off"}):
        with pytest.raises(ValueError, match="lights_off: slot 'room' is said twice: 'kitchen', 'hall'"):
            Actions({"lights_off": entry}).plan(found)
    assert Actions({"lights_off": {"run": ["x"]}}).plan(found).run == ("x",)
    again = prediction(room="kitchen")
    again["slots"] *= 2
    assert Actions({"lights_off": {"run": ["x", "{room}"]}}).plan(again).run == ("x", "kitchen")


def test_what_a_program_prints_may_go_aside(capfd):
    actions = Actions({"lights_off": {"run": [sys.executable, "-c", "print('done')"]}})
    for aside, place in ((False, 0), (True, 1)):
        assert actions.act(actions.plan(prediction()), aside=aside) == "exit code 0"
        told = capfd.readouterr()
        assert "done" in told[place]
        assert "done" not in told[1 - place]
